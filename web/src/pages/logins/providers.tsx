// Credential providers: password stores outside the service, in the order in which they are asked.
import type { ItemOf } from '../../api/contracts.ts'
import { useChange } from '../../api/queries.ts'
import { useRights } from '../../api/rights.ts'
import { Act } from '../../ui/act.tsx'
import { examples } from '../../ui/code.tsx'
import { Empty } from '../../ui/empty.tsx'
import { List, type Column, type Filter } from '../../ui/list.tsx'
import { Head } from '../../ui/page.tsx'
import { Remove } from '../../ui/remove.tsx'
import { Ago, Mono, State } from '../../ui/show.tsx'
import { done } from '../../ui/toasts.tsx'

type Provider = ItemOf<'listCredentialProviders'>

const FILTERS: Filter[] = [{ kind: 'search', name: 'query', label: 'Search by name or id' }]

function Try({ provider }: { provider: Provider }) {
  const test = useChange('testCredentialProvider')
  return (
    <Act
      label={`Test ${provider.name}`}
      busy="Testing…"
      failure="It cannot be read"
      work={async () => {
        const { success, vaults, error } = await test.mutateAsync({ params: { id: provider.id } })
        if (!success) throw new Error(error ?? 'It has given no reason.')
        done(`It can be read: ${vaults.length} ${vaults.length === 1 ? 'vault' : 'vaults'}`)
      }}
    >
      Test
    </Act>
  )
}

const columns = (mayUse: boolean, mayOwn: boolean): Column<Provider>[] => [
  {
    title: 'Provider',
    cell: ({ name, id }) => (
      <span className="main-cell">
        {name}
        <small>
          <Mono>{id}</Mono>
        </small>
      </span>
    ),
  },
  { title: 'Type', isMinor: true, cell: ({ provider_type: type }) => type },
  { title: 'State', cell: ({ enabled }) => <State kind={enabled ? 'good' : 'off'}>{enabled ? 'On' : 'Off'}</State> },
  { title: 'Priority', isMinor: true, isNumber: true, cell: ({ priority }) => priority },
  { title: 'Changed', isMinor: true, cell: ({ updated_at: at }) => <Ago at={at} /> },
  {
    title: 'Actions',
    cell: (provider) => (
      <span className="row-actions">
        {mayUse && <Try provider={provider} />}
        {mayOwn && (
          <Remove
            call="deleteCredentialProvider"
            input={{ params: { id: provider.id } }}
            changes={['listCredentialProviders']}
            what="the provider"
            name={provider.name}
            text="managed logins do not find its items any more. The store itself stays as it is."
          />
        )}
      </span>
    ),
  },
]

export default function Providers() {
  const may = useRights()
  return (
    <>
      <Head title="Credential providers" text="Password stores outside this service, asked in this order." />
      <List
        id="listCredentialProviders"
        label="Credential providers"
        filters={FILTERS}
        columns={columns(may.use, may.ownAll)}
        keyOf={({ id }) => id}
        empty={
          <Empty
            title="No credential providers"
            text="Managed logins can take values from 1Password, KeePass, pass, Bitwarden, Vault or a file. An owner creates a provider from a program:"
            examples={examples(
              `const provider = await kernel.credentialProviders.create({ name: 'team', provider_type: 'onepassword', token: process.env.OP_SERVICE_ACCOUNT_TOKEN! })\nconsole.log(provider.id)`,
              `provider = kernel.credential_providers.create(name="team", provider_type="onepassword", token=os.environ["OP_SERVICE_ACCOUNT_TOKEN"])\nprint(provider.id)`,
              `-H "Content-Type: application/json" -d "{\\"name\\": \\"team\\", \\"provider_type\\": \\"onepassword\\", \\"token\\": \\"$OP_SERVICE_ACCOUNT_TOKEN\\"}" $URL/org/credential_providers`,
            )}
          />
        }
      />
    </>
  )
}
