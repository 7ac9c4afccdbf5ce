// One managed login: the state or the question of its flow, and earlier logins and checks.
import { Link, useNavigate, useParams } from 'react-router'
import type { AnswerOf } from '../../api/contracts.ts'
import { useCall, useChange } from '../../api/queries.ts'
import { useRights } from '../../api/rights.ts'
import { Act } from '../../ui/act.tsx'
import { Button } from '../../ui/button.tsx'
import { useChoices } from '../../ui/choices.ts'
import { FormDialog } from '../../ui/form.tsx'
import type { FieldSpec } from '../../ui/form-values.ts'
import { List, type Filter } from '../../ui/list.tsx'
import { Remove } from '../../ui/remove.tsx'
import { Ago, duration, Facts, Mono, Outside } from '../../ui/show.tsx'
import { StateOf, words } from '../../ui/state-of.tsx'
import { Thing } from '../../ui/thing.tsx'
import { done } from '../../ui/toasts.tsx'
import { own } from '../sessions/model.ts'
import '../../ui/form.css'

type Connection = AnswerOf<'getAuthConnection'>

const REFRESH_MS = 3_000

export default function ConnectionPage() {
  const { id = '' } = useParams()
  const may = useRights()
  return (
    <Thing
      query={useCall('getAuthConnection', { params: { id } }, { everyMs: REFRESH_MS })}
      what="This managed login"
      back={<Link to="/logins">Managed logins</Link>}
      titleOf={({ domain }) => domain}
      text={({ status, profile_name: profile }) => (
        <>
          <StateOf state={status} /> · profile {profile}
        </>
      )}
      buttons={(connection) => may.use && <Buttons connection={connection} />}
    >
      {(connection) => (
        <>
          <Flow connection={connection} mayUse={may.use} />
          <section className="panel" aria-label="Settings">
            <h2>Settings</h2>
            <Facts
              facts={[
                ['Id', <Mono key="id">{connection.id}</Mono>],
                ['Page of the login', connection.login_url && <Outside url={connection.login_url} />],
                ['Hosts where it may be typed', connection.allowed_domains.join(', ')],
                [
                  'Credential',
                  connection.credential &&
                    (connection.credential.name ?? [connection.credential.provider, connection.credential.path ?? 'found by domain'].join(': ')),
                ],
                ['Logs in again by itself', `${connection.can_reauth && connection.auto_reauth ? 'yes' : 'no'}: ${words(connection.can_reauth_reason)}`],
                ['Checked every', connection.health_checks ? duration(connection.health_check_interval * 1000) : 'never'],
                ['Last check', <Ago key="checked" at={connection.last_auth_check_at} />],
                ['Keeps what is typed', connection.save_credentials ? 'yes' : 'no'],
                ['Records logins', connection.record_session ? 'yes' : 'no'],
              ]}
            />
          </section>
          <section className="section">
            <h2>Timeline</h2>
            <Timeline id={connection.id} />
          </section>
        </>
      )}
    </Thing>
  )
}

/** Only changed fields are sent, because a project's key that sends hosts or a credential gets stricter rules for where its values may go. */
function Change({ connection }: { connection: Connection }) {
  const change = useChange('updateAuthConnection', ['getAuthConnection', 'listAuthConnections'])
  const { credential } = connection
  const choices = useChoices(
    'listCredentials',
    credential?.provider === undefined ? 'None: a person types it' : `An item of ${credential.provider}, as it is`,
    ({ name }) => [name, name],
  )
  const isOn = (name: string, label: string, value: boolean): FieldSpec => ({ name, label, kind: 'switch', initial: value ? 'true' : '', onlyChanged: true })
  return (
    <FormDialog
      title={`Change ${connection.domain}`}
      trigger={<Button>Change</Button>}
      fields={[
        {
          name: 'login_url',
          label: 'Page of the login',
          initial: connection.login_url ?? '',
          hint: 'May be empty: it is looked for.',
          onlyChanged: true,
          sendsEmpty: true,
        },
        {
          name: 'credential.name',
          label: 'Credential',
          kind: 'choice',
          // A credential can be replaced but not removed.
          options: credential?.name === undefined ? choices : choices.slice(1),
          initial: credential?.name ?? '',
          onlyChanged: true,
        },
        {
          name: 'allowed_domains',
          label: 'More hosts where it may be typed',
          kind: 'lines',
          rows: 2,
          initial: connection.allowed_domains.join('\n'),
          hint: 'One a line.',
          onlyChanged: true,
          sendsEmpty: true,
        },
        isOn('auto_reauth', 'Log in again by itself', connection.auto_reauth),
        isOn('health_checks', 'Check whether it is still logged in', connection.health_checks),
        {
          name: 'health_check_interval',
          label: 'Checked every so many seconds',
          kind: 'number',
          initial: String(connection.health_check_interval),
          isRequired: true,
          onlyChanged: true,
          when: ({ health_checks: checks }) => checks === 'true',
        },
        isOn('save_credentials', 'Keep what a person types as a credential', connection.save_credentials),
        isOn('record_session', 'Record logins', connection.record_session),
      ]}
      action="Save"
      send={async (body) => {
        await change.mutateAsync({ params: { id: connection.id }, body })
        done('Saved')
      }}
    />
  )
}

function Buttons({ connection }: { connection: Connection }) {
  const { id, domain, flow_status: status } = connection
  const login = useChange('loginAuthConnection', ['getAuthConnection', 'listAuthConnections', 'listAuthConnectionTimeline'])
  const navigate = useNavigate()
  return (
    <>
      {status !== 'IN_PROGRESS' && (
        <Act
          look="primary"
          busy="Beginning…"
          failure="The login has not begun"
          work={async () => {
            await login.mutateAsync({ params: { id } })
            done('The login has begun')
          }}
        >
          Log in
        </Act>
      )}
      <Change connection={connection} />
      <Remove
        call="deleteAuthConnection"
        input={{ params: { id } }}
        changes={['listAuthConnections']}
        what="the managed login"
        name={domain}
        text="a login under way is cancelled. Its profile and its credential stay."
        look="danger"
        onDone={() => void navigate('/logins')}
      />
    </>
  )
}

/** The present or last login. All texts come from the site. */
function Flow({ connection, mayUse }: { connection: Connection; mayUse: boolean }) {
  const { flow_status: status, flow_step: step, flow_type: type } = connection
  if (status === null) return null
  const asked = [...(connection.fields ?? []).map(({ label }) => label), ...(connection.choices ?? []).map(({ label }) => label)]
  const isOpen = status === 'IN_PROGRESS'
  return (
    <section className="panel" aria-label="Last login">
      <h2>{type === 'REAUTH' ? 'Login by itself' : 'Login'}</h2>
      <Facts
        facts={[
          ['State', <StateOf key="state" state={status} />],
          ['Step', isOpen && step && words(step)],
          ['Asks for', asked.join(', ')],
          ['To do elsewhere', connection.external_action_message],
          ['The site says', connection.website_error],
          ['What is wrong', connection.error_message ?? (connection.error_code && words(connection.error_code))],
          ['Ends', isOpen && connection.flow_expires_at && <Ago key="expires" at={connection.flow_expires_at} />],
          [
            'Session',
            connection.browser_session_id && (
              <Link key="session" to={`/sessions/${connection.browser_session_id}`}>
                {connection.browser_session_id}
              </Link>
            ),
          ],
        ]}
      />
      {isOpen && mayUse && connection.hosted_url && (
        <p className="buttons section">
          <a className="button primary" href={own(connection.hosted_url)} target="_blank" rel="noopener">
            Continue the login
          </a>
        </p>
      )}
    </section>
  )
}

const FILTERS: Filter[] = [
  {
    kind: 'choice',
    name: 'type',
    label: 'Kind',
    options: [
      ['', 'Logins and checks'],
      ['login', 'Logins'],
      ['reauth', 'Logins by itself'],
      ['health_check', 'Checks'],
    ],
  },
]
const KINDS = { login: 'Login', reauth: 'Login by itself', health_check: 'Check' }

const Timeline = ({ id }: { id: string }) => (
  <List
    id="listAuthConnectionTimeline"
    label="Timeline"
    params={{ id }}
    filters={FILTERS}
    everyMs={REFRESH_MS}
    keyOf={({ id: item }) => item}
    columns={[
      { title: 'When', cell: ({ timestamp: at }) => <Ago at={at} /> },
      { title: 'What', cell: ({ type }) => KINDS[type] },
      {
        title: 'Result',
        cell: ({ status, error_message: message, error_code: code, website_error: said }) => (
          <span className="main-cell">
            <StateOf state={status} />
            {(message ?? said ?? code) && <small>{message ?? said ?? words(code!)}</small>}
          </span>
        ),
      },
      {
        title: 'Session',
        isMinor: true,
        cell: ({ browser_session_id: session }) => session && <Link to={`/sessions/${session}`}>{session}</Link>,
      },
    ]}
    empty={<p className="muted">No login and no check yet.</p>}
  />
)
