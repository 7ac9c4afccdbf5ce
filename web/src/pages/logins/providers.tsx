// Credential providers: password stores outside the service, in the order in which the service asks them.
import type { ItemOf } from '../../api/contracts.ts'
import { useChange } from '../../api/queries.ts'
import { useRights } from '../../api/rights.ts'
import { Act } from '../../ui/act.tsx'
import { Button } from '../../ui/button.tsx'
import { examples } from '../../ui/code.tsx'
import { Empty } from '../../ui/empty.tsx'
import { FormDialog } from '../../ui/form.tsx'
import type { FieldSpec } from '../../ui/form-values.ts'
import { List, type Column, type Filter } from '../../ui/list.tsx'
import { Head } from '../../ui/page.tsx'
import { Remove } from '../../ui/remove.tsx'
import { Ago, Named, State } from '../../ui/show.tsx'
import { done } from '../../ui/toasts.tsx'

type Provider = ItemOf<'listCredentialProviders'>

const FILTERS: Filter[] = [{ kind: 'search', name: 'query', label: 'Search by name or id' }]

/** The form of each type's token. All except the first are JSON. */
const TYPES = [
  ['onepassword', '1Password, with a service account'],
  ['onepassword-connect', '1Password Connect'],
  ['bitwarden', 'Bitwarden'],
  ['bitwarden-export', 'An export of Bitwarden'],
  ['vault', 'Vault'],
  ['file', 'A file'],
  ['command', 'A program of yours'],
] as const

const About = () => (
  <p className="muted">
    The token is what opens the store: that of a service account (ops_…), or JSON for all other types, as{' '}
    <a href="/docs/credential-providers" target="_blank" rel="noopener">
      their documentation
    </a>{' '}
    says. It is stored encrypted and never shown again.
  </p>
)

const cacheField = (initial: string, hint: string): FieldSpec => ({
  name: 'cache_ttl_seconds',
  label: 'Its list of items is remembered for so many seconds',
  kind: 'number',
  initial,
  hint,
})

function NewProvider() {
  const create = useChange('createCredentialProvider', ['listCredentialProviders'])
  return (
    <FormDialog
      title="New credential provider"
      trigger={<Button look="primary">New provider</Button>}
      text={<About />}
      fields={[
        { name: 'name', label: 'Name', isRequired: true },
        { name: 'provider_type', label: 'Type', kind: 'choice', options: TYPES },
        { name: 'token', label: 'Token', kind: 'password', isRequired: true },
        cacheField('300', 'Values are never remembered. 0: not at all.'),
      ]}
      action="Create"
      send={async (body) => {
        await create.mutateAsync({ body: body as { name: string; provider_type: 'file'; token: string } })
        done('Created. Test it, to see whether it can be read')
      }}
    />
  )
}

function Change({ provider }: { provider: Provider }) {
  const change = useChange('updateCredentialProvider', ['listCredentialProviders'])
  return (
    <FormDialog
      title={`Change ${provider.name}`}
      trigger={
        <Button look="quiet" aria-label={`Change ${provider.name}`}>
          Change
        </Button>
      }
      text={<About />}
      fields={[
        { name: 'name', label: 'Name', initial: provider.name, isRequired: true, onlyChanged: true },
        { name: 'token', label: 'Token', kind: 'password', hint: 'Empty: it stays as it is.' },
        cacheField('', 'Empty: it stays as it is. Values are never remembered.'),
        {
          name: 'priority',
          label: 'Priority',
          kind: 'number',
          initial: String(provider.priority),
          isRequired: true,
          hint: 'Lower ones are asked first.',
          onlyChanged: true,
        },
        { name: 'enabled', label: 'Logins use it', kind: 'switch', initial: provider.enabled ? 'true' : '', onlyChanged: true },
      ]}
      action="Save"
      send={async (body) => {
        await change.mutateAsync({ params: { id: provider.id }, body })
        done('Saved')
      }}
    />
  )
}

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
  { title: 'Provider', cell: ({ name, id }) => <Named name={name} id={id} /> },
  { title: 'Type', isMinor: true, cell: ({ provider_type: type }) => type },
  { title: 'State', cell: ({ enabled }) => <State kind={enabled ? 'good' : 'off'}>{enabled ? 'On' : 'Off'}</State> },
  { title: 'Priority', isMinor: true, isNumber: true, cell: ({ priority }) => priority },
  { title: 'Changed', isMinor: true, cell: ({ updated_at: at }) => <Ago at={at} /> },
  {
    title: 'Actions',
    cell: (provider) => (
      <span className="row-actions">
        {mayUse && <Try provider={provider} />}
        {mayOwn && <Change provider={provider} />}
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
      <Head title="Credential providers" text="Password stores outside this service, asked in this order.">
        {may.ownAll && <NewProvider />}
      </Head>
      <List
        id="listCredentialProviders"
        label="Credential providers"
        filters={FILTERS}
        columns={columns(may.use, may.ownAll)}
        keyOf={({ id }) => id}
        empty={
          <Empty
            title="No credential providers"
            text="Managed logins can take values from 1Password, Bitwarden, Vault, a file, or a program of yours. An owner of all projects creates a provider here, or from a program:"
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
