// manage_auth_connections: profiles that are kept logged in at sites.
import { z } from 'zod'
import { sleep } from '../../../../base/wait.ts'
import { fault } from '../../../../http/fault.ts'
import { authConnections, BeginLogin, CreateConnection, Submission, TIMELINE_TYPES, UpdateConnection } from '../../../logins/auth-connections/contract.ts'
import { GivenTelemetry } from '../../../sessions/telemetry/contract.ts'
import type { Api } from '../api.ts'
import { jsonResult, textResult, type Result } from '../results.ts'
import { field, paging, tool } from '../tool.ts'

/** How long one call waits for a login: less than hosts and proxies wait for an answer. */
const MOST_WAIT_SECONDS = 25
/** Longer waits that other servers' clients ask for are taken, and end after the time above. */
const MOST_ASKED_SECONDS = 30
const POLL_MS = 1_000

const text = z.string().min(1).max(255)
const create = CreateConnection.shape

/** What a caller may say of a connection beside its site and profile, by create and update. */
const SETTINGS = [
  'allowed_domains',
  'login_url',
  'credential_name',
  'credential_provider',
  'credential_path',
  'credential_auto',
  'auto_reauth',
  'health_checks',
  'health_check_interval',
  'save_credentials',
  'record_session',
  'browser_telemetry',
  'proxy_id',
  'proxy_name',
] as const
/** Those that the API takes by the same name. */
const PLAIN: readonly string[] = SETTINGS.filter((name) => !/^(credential|proxy)_/.test(name))
/** The ways to answer a question of a login, one at a time, and the question that is meant. */
const ANSWERS = [
  'field_values',
  'selected_choice_id',
  'sign_in_option_id',
  'fields',
  'mfa_option_id',
  'sso_button_selector',
  'sso_provider',
  'interaction_id',
] as const

const AS_FIELDS = {
  ...Object.fromEntries(['name', 'provider', 'path', 'auto'].map((name) => [`credential.${name}`, `credential_${name}`])),
  'proxy.id': 'proxy_id',
  'proxy.name': 'proxy_name',
}

export const manageAuthConnections = tool(
  {
    name: 'manage_auth_connections',
    toolset: 'auth_connections',
    asFields: AS_FIELDS,
    title: 'Manage logins at sites',
    description:
      'Manage connections: profiles that are kept logged in at a site. Before a task at a site that needs an account, "list" those of its domain: with one whose status is AUTHENTICATED, create the browser with its profile_name. Else "create" a connection and "login": the person opens the hosted_url of the answer and logs in there, so that no password gets into this conversation. Then "wait" again and again until the state is authenticated or failed. "submit" answers a question of the login itself, when the person has given the values here. "update" changes a connection, "timeline" lists its logins and checks.',
    hints: { openWorldHint: true },
    fields: {
      id: text.describe('Id of the connection.'),
      domain: text.describe('The site, such as "example.com".'),
      profile_name: field(create.profile_name, 'Name of the profile. In a list: only those of it. For wait: together with domain_filter, instead of id.'),
      domain_filter: text.describe('Only connections of this domain.'),
      allowed_domains: z.array(z.string().min(1).max(253)).max(100).describe('Other domains of this login.'),
      login_url: field(create.login_url, 'Address of the login page.'),
      credential_name: text.describe('Name of a stored credential to log in with.'),
      credential_provider: text.describe('Name of a credential provider, with credential_path or credential_auto.'),
      credential_path: z.string().min(1).max(1024).describe('The item of the provider.'),
      credential_auto: z.boolean().describe('Look for the item of the domain.'),
      auto_reauth: z.boolean().describe('Log in again without a person when the site has ended its session. Default true.'),
      health_checks: z.boolean().describe('Check from time to time whether it is still logged in. Default true.'),
      health_check_interval: field(create.health_check_interval, 'Seconds between two checks whether it is still logged in.'),
      save_credentials: z.boolean().describe('Keep the values of a login for the next one. Default true.'),
      record_session: z.boolean().describe('Record the browsers of its logins as video; for login: of this one.'),
      browser_telemetry: GivenTelemetry.describe('Telemetry of the browsers of its logins; for login: of this one.'),
      proxy_id: text.describe('Id of the proxy for its logins.'),
      proxy_name: text.describe('The same by name.'),
      field_values: z.record(z.string(), z.string()).describe('Values by the id of the field, as fields of get has them.'),
      selected_choice_id: text.describe('Id of the choice, from choices of get.'),
      sign_in_option_id: text.describe('Id of another way to sign in, from sign_in_options of get.'),
      interaction_id: text.describe('The question that is answered, from get: an answer to an earlier one is refused.'),
      fields: z.record(z.string(), z.string()).describe('The older form of field_values: by the name of the field, as discovered_fields of get has them.'),
      mfa_option_id: text.describe('The older form of selected_choice_id: type of the second factor, from mfa_options.'),
      sso_button_selector: z.string().min(1).max(2048).describe('The older form of sign_in_option_id: selector of a button of pending_sso_buttons.'),
      sso_provider: text.describe('The same by the provider of the button.'),
      type: z.enum(TIMELINE_TYPES).describe('In a timeline: only entries of this type.'),
      wait_seconds: z.int().min(1).max(MOST_ASKED_SECONDS).describe(`How long to wait, at most ${MOST_WAIT_SECONDS} seconds, which is the default.`),
      required_flow_type: z.enum(['LOGIN', 'REAUTH']).describe('Count only a flow of this type as authenticated.'),
      ...paging,
    },
  },
  (on) => ({
    create: on({ needs: ['domain', 'profile_name'], takes: [...SETTINGS] }, async (given, api) => {
      const body = { domain: given.domain, profile_name: given.profile_name, ...settingsOf(given) } as z.input<typeof CreateConnection>
      return jsonResult(await api.call(authConnections.createAuthConnection, { body }))
    }),
    update: on({ needs: ['id'], takes: [...SETTINGS] }, async ({ id, ...given }, api) =>
      jsonResult(await api.call(authConnections.updateAuthConnection, { params: { id }, body: settingsOf(given) as z.input<typeof UpdateConnection> })),
    ),
    list: on({ takes: ['domain_filter', 'profile_name', 'limit', 'offset'] }, async ({ domain_filter: domain, profile_name, limit, offset }, api) =>
      jsonResult(await api.call(authConnections.listAuthConnections, { query: { domain, profile_name, limit, offset } })),
    ),
    get: on({ needs: ['id'] }, async ({ id }, api) => jsonResult(await api.call(authConnections.getAuthConnection, { params: { id } }))),
    delete: on({ needs: ['id'] }, async ({ id }, api) => {
      await api.call(authConnections.deleteAuthConnection, { params: { id } })
      return textResult('The connection is deleted.')
    }),
    login: on({ needs: ['id'], takes: ['record_session', 'browser_telemetry', 'proxy_id', 'proxy_name'] }, async (given, api) => {
      const { id, record_session, browser_telemetry } = given
      const body = { record_session, browser_telemetry, proxy: proxyOf(given) } as z.input<typeof BeginLogin>
      return jsonResult(await api.call(authConnections.loginAuthConnection, { params: { id }, body }))
    }),
    submit: on({ needs: ['id'], takes: [...ANSWERS] }, async ({ id, ...body }, api) =>
      jsonResult(await api.call(authConnections.submitAuthConnection, { params: { id }, body: body as z.input<typeof Submission> })),
    ),
    timeline: on({ needs: ['id'], takes: ['type', 'limit', 'offset'] }, async ({ id, ...query }, api) =>
      jsonResult(await api.call(authConnections.listAuthConnectionTimeline, { params: { id }, query })),
    ),
    wait: on({ takes: ['id', 'domain_filter', 'profile_name', 'wait_seconds', 'required_flow_type'] }, wait),
  }),
)

interface Settings {
  credential_name?: string | undefined
  credential_provider?: string | undefined
  credential_path?: string | undefined
  credential_auto?: boolean | undefined
  proxy_id?: string | undefined
  proxy_name?: string | undefined
}

/** What the API is told of the settings that were given. */
function settingsOf(given: Settings): object {
  const plain = Object.fromEntries(Object.entries(given).filter(([name]) => PLAIN.includes(name)))
  const { credential_name: name, credential_provider: provider, credential_path: path, credential_auto: auto } = given
  const credential = [name, provider, path, auto].some((part) => part !== undefined) ? { name, provider, path, auto } : undefined
  return { ...plain, credential, proxy: proxyOf(given) }
}

const proxyOf = ({ proxy_id: id, proxy_name: name }: { proxy_id?: string | undefined; proxy_name?: string | undefined }): object | undefined =>
  id === undefined && name === undefined ? undefined : { id, name }

interface Wait {
  id?: string | undefined
  domain_filter?: string | undefined
  profile_name?: string | undefined
  wait_seconds?: number | undefined
  required_flow_type?: 'LOGIN' | 'REAUTH' | undefined
}

/** What is told of a connection while it logs in: nothing that the site says. */
interface ShownConnection {
  id: string
  domain: string
  profile_name: string
  status: string
  flow_status: string | null
  flow_step: string | null
  flow_type?: string | null
  flow_expires_at?: string | null
  can_reauth: boolean
  can_reauth_reason: string
  error_code?: string | null
}

const NEXT = {
  authenticated: 'It is logged in. Go on with the task, in a browser with this profile_name.',
  failed: 'It could not log in. Tell the person, and ask whether to try again.',
  pending: 'It is not logged in yet. Call wait with the same fields again at once; do not ask the person whether it is done.',
}

async function wait({ id, domain_filter: domain, profile_name, wait_seconds = MOST_WAIT_SECONDS, required_flow_type }: Wait, api: Api): Promise<Result> {
  if (id === undefined && (domain === undefined || profile_name === undefined))
    throw fault.field('id', 'is required for wait, or domain_filter with profile_name')
  const until = performance.now() + Math.min(wait_seconds, MOST_WAIT_SECONDS) * 1000
  for (;;) {
    const connection: ShownConnection | undefined =
      id === undefined ? await named(domain!, profile_name!, api) : await api.call(authConnections.getAuthConnection, { params: { id } })
    const state = connection === undefined ? 'pending' : stateOf(connection, required_flow_type)
    if (state !== 'pending' || performance.now() + POLL_MS > until) {
      const shown = connection && sanitized(connection)
      return {
        ...jsonResult({ state, ...(shown && { connection: shown }), instruction: NEXT[state] }),
        structuredContent: { state, connection: shown, instruction: NEXT[state] },
      }
    }
    await sleep(POLL_MS, api.signal)
  }
}

function stateOf({ status, flow_status, flow_type }: ShownConnection, required: string | undefined): keyof typeof NEXT {
  if (flow_status === 'IN_PROGRESS') return 'pending'
  if (status === 'AUTHENTICATED' && (required === undefined || flow_type === required)) return 'authenticated'
  return flow_status === null || flow_status === 'SUCCESS' ? 'pending' : 'failed'
}

async function named(domain: string, profile_name: string, api: Api): Promise<ShownConnection | undefined> {
  const { items } = await api.call(authConnections.listAuthConnections, { query: { domain, profile_name, limit: 2 } })
  if (items.length > 1) throw fault.field('id', 'is required: several connections have this domain and profile')
  return items[0]
}

const sanitized = (connection: ShownConnection): ShownConnection => ({
  id: connection.id,
  domain: connection.domain,
  profile_name: connection.profile_name,
  status: connection.status,
  flow_status: connection.flow_status,
  flow_step: connection.flow_step,
  flow_type: connection.flow_type ?? null,
  flow_expires_at: connection.flow_expires_at ?? null,
  can_reauth: connection.can_reauth,
  can_reauth_reason: connection.can_reauth_reason,
  error_code: connection.error_code ?? null,
})
