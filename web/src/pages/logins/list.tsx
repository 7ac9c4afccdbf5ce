// Managed logins: connections that keep profiles logged in at sites.
import { Link, useNavigate } from 'react-router'
import type { ItemOf } from '../../api/contracts.ts'
import { useChange } from '../../api/queries.ts'
import { useRights } from '../../api/rights.ts'
import { Button } from '../../ui/button.tsx'
import { useChoices } from '../../ui/choices.ts'
import { examples } from '../../ui/code.tsx'
import { Empty } from '../../ui/empty.tsx'
import { FormDialog } from '../../ui/form.tsx'
import { List, type Column, type Filter } from '../../ui/list.tsx'
import { Head } from '../../ui/page.tsx'
import { Ago } from '../../ui/show.tsx'
import { StateOf, words } from '../../ui/state-of.tsx'

const REFRESH_MS = 5_000
const FILTERS: Filter[] = [{ kind: 'search', name: 'query', label: 'Search by domain, profile or id' }]

const COLUMNS: Column<ItemOf<'listAuthConnections'>>[] = [
  {
    title: 'Site',
    cell: ({ id, domain, profile_name: profile }) => (
      <span className="main-cell">
        <Link to={`/logins/${id}`}>{domain}</Link>
        <small>profile {profile}</small>
      </span>
    ),
  },
  { title: 'State', cell: ({ status }) => <StateOf state={status} /> },
  {
    title: 'Login',
    isMinor: true,
    cell: ({ flow_status: status, flow_step: step }) => (status === 'IN_PROGRESS' && step ? words(step) : status && <StateOf state={status} />),
  },
  { title: 'Logs in again by itself', isMinor: true, cell: ({ can_reauth: can, auto_reauth: isOn }) => (can && isOn ? 'yes' : can ? 'can, but is off' : 'no') },
  { title: 'Checked', cell: ({ last_auth_check_at: at }) => <Ago at={at} /> },
]

function NewConnection() {
  const create = useChange('createAuthConnection', ['listAuthConnections'])
  const credentials = useChoices('listCredentials', 'None: a person types it', ({ name }) => [name, name])
  const navigate = useNavigate()
  return (
    <FormDialog
      title="New managed login"
      trigger={<Button look="primary">New managed login</Button>}
      fields={[
        { name: 'domain', label: 'Domain', isRequired: true, placeholder: 'example.com' },
        { name: 'profile_name', label: 'Profile', isRequired: true, hint: 'What keeps the login. It is made when there is none of that name.' },
        { name: 'login_url', label: 'Page of the login', placeholder: 'https://example.com/login', hint: 'May be empty: it is looked for.' },
        { name: 'credential.name', label: 'Credential', kind: 'choice', options: credentials },
        {
          name: 'allowed_domains',
          label: 'More hosts where it may be typed',
          kind: 'lines',
          rows: 2,
          hint: 'One a line, for example of a separate page to sign in.',
        },
        { name: 'auto_reauth', label: 'Log in again by itself', kind: 'switch', initial: 'true' },
        { name: 'save_credentials', label: 'Keep what a person types as a credential', kind: 'switch', initial: 'true' },
        { name: 'record_session', label: 'Record logins', kind: 'switch' },
      ]}
      action="Create"
      send={async (body) => {
        const { id } = await create.mutateAsync({ body: body as { domain: string; profile_name: string } })
        await navigate(`/logins/${id}`)
      }}
    />
  )
}

export default function Connections() {
  const may = useRights()
  return (
    <>
      <Head title="Managed logins" text="Profiles that are kept logged in at sites.">
        {may.use && <NewConnection />}
      </Head>
      <List
        id="listAuthConnections"
        label="Managed logins"
        filters={FILTERS}
        columns={COLUMNS}
        keyOf={({ id }) => id}
        everyMs={REFRESH_MS}
        empty={
          <Empty
            title="No managed logins"
            text="The service logs a profile in at a site, with a credential or with a person who types it, and again when the site has forgotten it. Begin here, or from a program:"
            examples={examples(
              `const connection = await kernel.auth.connections.create({ domain: 'example.com', profile_name: 'example' })\nconst login = await kernel.auth.connections.login(connection.id)\nconsole.log(login.hosted_url)`,
              `connection = kernel.auth.connections.create(domain="example.com", profile_name="example")\nlogin = kernel.auth.connections.login(connection.id)\nprint(login.hosted_url)`,
              `-H "Content-Type: application/json" -d '{"domain": "example.com", "profile_name": "example"}' $URL/auth/connections`,
            )}
          />
        }
      />
    </>
  )
}
