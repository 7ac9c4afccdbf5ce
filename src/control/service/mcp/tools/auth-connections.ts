// manage_auth_connections: profiles that are kept logged in at sites.
import * as z from 'zod'
import { sleep } from '../../../../base/wait.ts'
import { fault } from '../../../../http/fault.ts'
import { authConnections, FLOW_TYPES, type Connection } from '../../../logins/auth-connections/contract.ts'
import type { Api } from '../api.ts'
import { jsonResult, type Result } from '../results.ts'
import { tool, type Given } from '../tool.ts'
import { paging } from './browsers.ts'

/** How long one call waits for a login: shorter than hosts and proxies wait for an answer. */
const MOST_WAIT_SECONDS = 25
/** Clients of other servers ask for longer waits. These are accepted, and end after the time above. */
const MOST_ASKED_SECONDS = 30
const POLL_MS = 1_000

/** Fields of a connection that are returned while it logs in: none with a text of the site. */
const SHOWN = [
  'id',
  'domain',
  'profile_name',
  'status',
  'flow_status',
  'flow_step',
  'flow_type',
  'flow_expires_at',
  'can_reauth',
  'can_reauth_reason',
  'error_code',
] as const

const NEXT = {
  authenticated: 'It is logged in. Go on with the task, in a browser with this profile_name.',
  failed: 'It could not log in. Tell the person, and ask whether to try again.',
  pending: 'It is not logged in yet. Call wait with the same fields again at once; do not ask the person whether it is done.',
}

export const manageAuthConnections = tool({
  name: 'manage_auth_connections',
  title: 'Manage logins at sites',
  description:
    'Manage connections: profiles that are kept logged in at a site. Before a task at a site that needs an account, "list" those of its domain: with one whose status is AUTHENTICATED, create the browser with its profile_name. Else "create" a connection and "login": the person opens the hosted_url of the answer and logs in there, so that no password gets into this conversation. Then "wait" again and again until the state is authenticated or failed. "submit" answers a question of the login itself, when the person has given the values here. "update" changes a connection, "timeline" lists its logins and checks.',
  hints: { openWorldHint: true },
  fields: {
    id: 'Id of the connection.',
    domain: 'The site, such as "example.com".',
    profile_name: 'Name of the profile. In a list: only those of it. For wait: together with domain_filter, instead of id.',
    domain_filter: ['domain', 'Only connections of this domain.'],
    allowed_domains: 'Other domains of this login.',
    login_url: 'Address of the login page.',
    credential_name: ['credential.name', 'Name of a stored credential to log in with.'],
    credential_provider: ['credential.provider', 'Name of a credential provider, with credential_path or credential_auto.'],
    credential_path: ['credential.path', 'The item of the provider.'],
    credential_auto: ['credential.auto', 'Look for the item of the domain.'],
    auto_reauth: 'Log in again without a person when the site has ended its session. Default true.',
    health_checks: 'Check from time to time whether it is still logged in. Default true.',
    health_check_interval: 'Seconds between two checks whether it is still logged in.',
    save_credentials: 'Keep the values of a login for the next one. Default true.',
    record_session: 'Record the browsers of its logins as video; for login: of this one.',
    browser_telemetry: 'Telemetry of the browsers of its logins; for login: of this one.',
    proxy_id: ['proxy.id', 'Id of the proxy for its logins.'],
    proxy_name: ['proxy.name', 'The same by name.'],
    field_values: 'Values by the id of the field, as fields of get has them.',
    selected_choice_id: 'Id of the choice, from choices of get.',
    sign_in_option_id: 'Id of another way to sign in, from sign_in_options of get.',
    interaction_id: 'The question that is answered, from get: an answer to an earlier one is refused.',
    fields: 'The older form of field_values: by the name of the field, as discovered_fields of get has them.',
    mfa_option_id: 'The older form of selected_choice_id: type of the second factor, from mfa_options.',
    sso_button_selector: 'The older form of sign_in_option_id: selector of a button of pending_sso_buttons.',
    sso_provider: 'The same by the provider of the button.',
    type: 'In a timeline: only entries of this type.',
    wait_seconds: `How long to wait, at most ${MOST_WAIT_SECONDS} seconds, which is the default.`,
    required_flow_type: 'Count only a flow of this type as authenticated.',
    ...paging,
  },
  actions: {
    create: { route: authConnections.createAuthConnection, without: ['domain_filter'] },
    update: authConnections.updateAuthConnection,
    list: { route: authConnections.listAuthConnections, without: ['domain'] },
    get: authConnections.getAuthConnection,
    delete: authConnections.deleteAuthConnection,
    login: authConnections.loginAuthConnection,
    submit: authConnections.submitAuthConnection,
    timeline: authConnections.listAuthConnectionTimeline,
    wait: {
      own: {
        id: z.string().min(1).optional(),
        domain_filter: z.string().min(1).optional(),
        profile_name: z.string().min(1).optional(),
        wait_seconds: z.int().min(1).max(MOST_ASKED_SECONDS).optional(),
        required_flow_type: z.enum(FLOW_TYPES).optional(),
      },
      run: wait,
    },
  },
})

async function wait({ id, domain_filter: domain, profile_name, wait_seconds = MOST_WAIT_SECONDS, required_flow_type: type }: Given, api: Api): Promise<Result> {
  if (id === undefined && (domain === undefined || profile_name === undefined))
    throw fault.field('id', 'is required for wait, or domain_filter with profile_name')
  const until = performance.now() + Math.min(wait_seconds as number, MOST_WAIT_SECONDS) * 1000
  for (;;) {
    const found =
      id === undefined
        ? await named(api, domain as string, profile_name as string)
        : await api.call(authConnections.getAuthConnection, { params: { id: id as string } })
    const state = found ? stateOf(found, type as string | undefined) : 'pending'
    if (state !== 'pending' || performance.now() + POLL_MS > until) {
      const connection = found && Object.fromEntries(SHOWN.map((name) => [name, found[name] ?? null]))
      const said = { state, ...(connection && { connection }), instruction: NEXT[state] }
      return { ...jsonResult(said), structuredContent: said }
    }
    await sleep(POLL_MS, api.signal)
  }
}

function stateOf({ status, flow_status, flow_type }: Connection, required: string | undefined): keyof typeof NEXT {
  if (flow_status === 'IN_PROGRESS') return 'pending'
  if (status === 'AUTHENTICATED' && (required === undefined || flow_type === required)) return 'authenticated'
  return flow_status === null || flow_status === 'SUCCESS' ? 'pending' : 'failed'
}

async function named(api: Api, domain: string, profile_name: string): Promise<Connection | undefined> {
  const { items } = await api.call(authConnections.listAuthConnections, { query: { domain, profile_name, limit: 2 } })
  if (items.length > 1) throw fault.field('id', 'is required: several connections have this domain and profile')
  return items[0]
}
