// Credentials: names and keys. Values are sent to the service and never come back.
import type { ItemOf } from '../../api/contracts.ts'
import { useCall, useChange } from '../../api/queries.ts'
import { useRights } from '../../api/rights.ts'
import { Button } from '../../ui/button.tsx'
import { examples } from '../../ui/code.tsx'
import { Dialog } from '../../ui/confirm.tsx'
import { Empty } from '../../ui/empty.tsx'
import { ErrorNotice } from '../../ui/error.tsx'
import { FormDialog } from '../../ui/form.tsx'
import { List, Loading, type Column, type Filter } from '../../ui/list.tsx'
import { Head } from '../../ui/page.tsx'
import { Remove } from '../../ui/remove.tsx'
import { Ago, Facts, Mono, Named } from '../../ui/show.tsx'
import { done } from '../../ui/toasts.tsx'

type Credential = ItemOf<'listCredentials'>

const FILTERS: Filter[] = [{ kind: 'search', name: 'query', label: 'Search by name, domain or id' }]

function NewCredential() {
  const create = useChange('createCredential', ['listCredentials'])
  return (
    <FormDialog
      title="New credential"
      trigger={<Button look="primary">New credential</Button>}
      fields={[
        { name: 'name', label: 'Name', isRequired: true },
        { name: 'domain', label: 'Domain', isRequired: true, placeholder: 'example.com' },
        { name: 'username', label: 'User name', hint: 'Kept under the key username. May be empty.' },
        { name: 'password', label: 'Password', kind: 'password', hint: 'Kept under the key password. It is encrypted and never shown again.' },
        { name: 'values', label: 'More values', kind: 'pairs', rows: 2, hint: 'One a line, as key=value.' },
        { name: 'totp_secret', label: 'TOTP secret', kind: 'password', hint: 'Base32, or an otpauth:// address. May be empty.' },
        { name: 'sso_provider', label: 'Sign-in by', placeholder: 'google', hint: 'The button to press at the site. May be empty.' },
      ]}
      action="Create"
      send={async ({ username, password, values, ...rest }) => {
        const all = { ...(username !== undefined && { username }), ...(password !== undefined && { password }), ...(values as object) }
        await create.mutateAsync({ body: { ...rest, values: all } as { name: string; domain: string; values: Record<string, string> } })
        done('Created')
      }}
    />
  )
}

const MERGED = 'Empty: it stays as it is.'

/** A change merges the values by key. Values that are not sent stay. */
function Change({ credential }: { credential: Credential }) {
  const change = useChange('updateCredential', ['listCredentials', 'getCredential'])
  const hasTotp = credential.has_totp_secret
  return (
    <FormDialog
      title={`Change ${credential.name}`}
      trigger={
        <Button look="quiet" aria-label={`Change ${credential.name}`}>
          Change
        </Button>
      }
      text={<HasNow id={credential.id} />}
      fields={[
        { name: 'name', label: 'Name', isRequired: true, initial: credential.name },
        { name: 'username', label: 'User name', hint: MERGED },
        { name: 'password', label: 'Password', kind: 'password', hint: MERGED },
        { name: 'values', label: 'More values', kind: 'pairs', rows: 2, hint: 'One a line, as key=value. Keys that are not named stay as they are.' },
        { name: 'remove_value_keys', label: 'Keys to remove', kind: 'lines', rows: 2, hint: 'One a line.' },
        ...(hasTotp ? [{ name: 'removes_totp', label: 'Remove the TOTP secret', kind: 'switch' as const }] : []),
        {
          name: 'totp_secret',
          label: 'TOTP secret',
          kind: 'password',
          hint: `Base32, or an otpauth:// address. ${hasTotp ? MERGED : 'May be empty.'}`,
          when: ({ removes_totp: removes }) => removes !== 'true',
        },
        { name: 'sso_provider', label: 'Sign-in by', placeholder: 'google', initial: credential.sso_provider ?? '', hint: 'May be empty.', sendsEmpty: true },
      ]}
      action="Save"
      send={async ({ username, password, values, removes_totp: removes, ...rest }) => {
        const typed = { ...(username !== undefined && { username }), ...(password !== undefined && { password }), ...(values as object) }
        const body = { ...rest, ...(Object.keys(typed).length > 0 && { values: typed }), ...(removes === true && { totp_secret: '' }) }
        await change.mutateAsync({ params: { id_or_name: credential.id }, body: body as { values?: Record<string, string> } })
        done('Saved')
      }}
    />
  )
}

/** Shows the existing keys, so that the person knows which key a typed one replaces. */
function HasNow({ id }: { id: string }) {
  const { data } = useCall('getCredential', { params: { id_or_name: id } })
  const keys = data?.value_keys?.join(', ')
  return (
    <p className="muted">
      Values are never shown. {data && 'It has '}
      {data && (keys ? <Mono>{keys}</Mono> : 'none')}
      {data && '.'}
    </p>
  )
}

const Keys = ({ credential }: { credential: Credential }) => (
  <Dialog
    title={credential.name}
    trigger={
      <Button look="quiet" aria-label={`Keys of ${credential.name}`}>
        Keys
      </Button>
    }
  >
    {(close) => <KeysOf id={credential.id} close={close} />}
  </Dialog>
)

function KeysOf({ id, close }: { id: string; close: () => void }) {
  const { data, error, isPending } = useCall('getCredential', { params: { id_or_name: id } })
  return (
    <>
      {isPending ? (
        <Loading label="the keys" />
      ) : !data ? (
        <ErrorNotice error={error} what="This credential" />
      ) : (
        <Facts
          facts={[
            ['Keys', <Mono key="keys">{(data.value_keys ?? []).join(', ') || 'none'}</Mono>],
            ['TOTP', data.has_totp_secret ? `${data.totp_algorithm}, ${data.totp_digits} digits, ${data.totp_period} s` : 'no secret'],
            ['Sign-in by', data.sso_provider],
            ['Changed', <Ago key="updated" at={data.updated_at} />],
          ]}
        />
      )}
      <p className="muted">Values are never shown, to nobody.</p>
      <div className="buttons">
        <Button onPress={close}>Close</Button>
      </div>
    </>
  )
}

const columns = (mayUse: boolean): Column<Credential>[] => [
  { title: 'Credential', cell: ({ name, id }) => <Named name={name} id={id} /> },
  { title: 'Domain', cell: ({ domain }) => domain },
  {
    title: 'Has',
    isMinor: true,
    cell: ({ has_values: values, has_totp_secret: totp, sso_provider: sso }) =>
      [values && 'values', totp && 'a TOTP secret', sso && `sign-in by ${sso}`].filter(Boolean).join(', '),
  },
  { title: 'Changed', isMinor: true, cell: ({ updated_at: at }) => <Ago at={at} /> },
  {
    title: 'Actions',
    cell: (credential) => (
      <span className="row-actions">
        <Keys credential={credential} />
        {mayUse && <Change credential={credential} />}
        {mayUse && (
          <Remove
            call="deleteCredential"
            input={{ params: { id_or_name: credential.id } }}
            changes={['listCredentials']}
            what="the credential"
            name={credential.name}
            text="its values are gone after that, and managed logins that name it need a person."
          />
        )}
      </span>
    ),
  },
]

export default function Credentials() {
  const may = useRights()
  return (
    <>
      <Head title="Credentials" text="What managed logins type. Values are stored encrypted and shown to nobody.">
        {may.use && <NewCredential />}
      </Head>
      <List
        id="listCredentials"
        label="Credentials"
        filters={FILTERS}
        columns={columns(may.use)}
        keyOf={({ id }) => id}
        empty={
          <Empty
            title="No credentials"
            text="A credential has what a login asks for: user name, password, TOTP secret. Create one here, or from a program:"
            examples={examples(
              `const credential = await kernel.credentials.create({ name: 'example', domain: 'example.com', values: { username: 'me', password: 'secret' } })\nconsole.log(credential.id)`,
              `credential = kernel.credentials.create(name="example", domain="example.com", values={"username": "me", "password": "secret"})\nprint(credential.id)`,
              `-H "Content-Type: application/json" -d '{"name": "example", "domain": "example.com", "values": {"username": "me", "password": "secret"}}' $URL/credentials`,
            )}
          />
        }
      />
    </>
  )
}
