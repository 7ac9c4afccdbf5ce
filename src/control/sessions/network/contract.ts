// The option `network` of browsers: which hosts a session may reach, which it reaches directly, and which through another proxy.
import { isDeepStrictEqual } from 'node:util'
import * as z from 'zod'
import { allowedHost, isListed, overlap, privateHost, routeHost, splitPort } from '../../../base/hosts.ts'
import { newId } from '../../../base/ids.ts'
import { option, type Refusal } from '../browsers/options/option/contract.ts'

/** Every request is compared with all of them. */
const MAX_ALLOWED_HOSTS = 1000
/** The limit of the published command line. */
const MAX_PRIVATE_HOSTS = 32
const MAX_ROUTES = 32
const MAX_ROUTE_HOSTS = 100
/** In characters of JSON. A list of sessions shows the whole value for each session. */
const MAX_NETWORK = 64 * 1024
const TOO_LARGE = 'is larger than 64 KiB'
const isSmall = (network: object): boolean => JSON.stringify(network).length <= MAX_NETWORK

const MAX_ENTRY = 300
const entry = (parse: typeof allowedHost, form: string) =>
  z
    .string()
    .max(MAX_ENTRY)
    .transform((text, context) => {
      const parsed = parse(text.toLowerCase())
      if (typeof parsed === 'string') return parsed
      context.addIssue({ code: 'custom', message: parsed.problem || `must be ${form}, without scheme or path` })
      return z.NEVER
    })
const AllowedHost = entry(allowedHost, 'a host name, "*." and one, an address ("[…]" for IPv6), or a subnet without host bits, without port')
const PrivateHost = entry(privateHost, 'a host name, "*." and one, a private address ("[…]" for IPv6), or a private subnet without host bits')
const RouteHost = entry(routeHost, 'a host name, or "*." and one, without port')

const AllowedHosts = z
  .array(AllowedHost)
  .min(1)
  .max(MAX_ALLOWED_HOSTS)
  .transform((hosts) => [...new Set(hosts)])

const Route = z.strictObject({
  hosts: z.array(RouteHost).min(1).max(MAX_ROUTE_HOSTS),
  proxy: z
    .strictObject({ id: z.string().min(1).max(255).optional(), name: z.string().min(1).max(255).optional() })
    .refine(({ id, name }) => (id === undefined) !== (name === undefined), 'must have exactly one of id and name'),
})

const CreateNetwork = z
  .strictObject({
    allowed_hosts: AllowedHosts.optional(),
    private_hosts: z.array(PrivateHost).max(MAX_PRIVATE_HOSTS).optional(),
    proxy_routes: z.array(Route).max(MAX_ROUTES).optional(),
  })
  .refine(isSmall, TOO_LARGE)
  .superRefine(({ allowed_hosts: allowed = [], private_hosts: direct = [], proxy_routes: routes = [] }, context) => {
    const refuse = (path: (string | number)[], message: string) => context.addIssue({ code: 'custom', path, message })
    for (const [at, host] of allowed.entries()) if (direct.some((other) => overlap(host, other))) refuse(['allowed_hosts', at], 'is in private_hosts as well')
    const seen = new Set<string>()
    for (const [at, { hosts }] of routes.entries())
      for (const [place, host] of hosts.entries()) {
        if (seen.has(host)) refuse(['proxy_routes', at, 'hosts', place], 'is in the routes twice')
        seen.add(host)
      }
  })

const UpdateNetwork = z
  .strictObject({
    /** Null: all hosts may be reached again. */
    allowed_hosts: AllowedHosts.nullable().optional(),
    /** The revision that the caller has seen. */
    expected_allowlist_revision: z.string().max(255).optional(),
    /** The caller's id for this change; the same when the caller retries it. */
    mutation_id: z.string().min(1).max(255).optional(),
  })
  .refine(isSmall, TOO_LARGE)
  .refine(({ expected_allowlist_revision: expected, mutation_id: id }) => (expected === undefined) === (id === undefined), {
    path: ['mutation_id'],
    error: 'must be given with expected_allowlist_revision, and only with it',
  })
  .refine(({ expected_allowlist_revision: expected, allowed_hosts: hosts }) => expected === undefined || hosts !== undefined, {
    path: ['allowed_hosts'],
    error: 'must be given with expected_allowlist_revision',
  })
type UpdateNetwork = z.output<typeof UpdateNetwork>

const Network = z.object({
  allowed_hosts: z.array(z.string()).optional(),
  private_hosts: z.array(z.string()).optional(),
  proxy_routes: z.array(z.object({ hosts: z.array(z.string()), proxy: z.object({ id: z.string() }) })).optional(),
  /** The state of the list of allowed hosts; also after it was removed. */
  allowlist_state: z
    .object({
      revision: z.string(),
      /** The revision that the last conditional change expected, and the id of that change. */
      base_revision: z.string().optional(),
      mutation_id: z.string().optional(),
    })
    .optional(),
})
/** The option as it is stored in a row. */
export type Network = z.output<typeof Network>

/** Whether an update is already stored: its caller may retry after a failure halfway. */
const isRepeated = ({ allowed_hosts: hosts, expected_allowlist_revision: expected, mutation_id: id }: UpdateNetwork, before: Network | undefined): boolean => {
  const state = before?.allowlist_state
  return id !== undefined && state?.mutation_id === id && state.base_revision === expected && isDeepStrictEqual(before?.allowed_hosts, hosts ?? undefined)
}

/** Why an update of a session's network is refused; undefined when it is not. */
function refuseUpdate(given: UpdateNetwork | undefined, before: Network | undefined): Refusal | undefined {
  if (!given || given.allowed_hosts === undefined || isRepeated(given, before)) return undefined
  const { allowed_hosts: hosts, expected_allowlist_revision: expected } = given
  if (expected !== undefined && before?.allowlist_state?.revision !== expected)
    return { field: 'network', problem: 'the allowed hosts have changed since the expected revision; read the browser again', code: 'stale_network' }
  if (hosts === null || before?.allowed_hosts) return undefined
  return { field: 'network.allowed_hosts', problem: 'can be changed only in a session that has been created with it, and not after it was removed' }
}

/** A session's network after an update that is not refused. */
function updated(given: UpdateNetwork | undefined, before: Network | undefined): Network | undefined {
  const { allowed_hosts: hosts, expected_allowlist_revision: expected, mutation_id: id } = given ?? {}
  if (hosts === undefined || !before?.allowlist_state || isRepeated(given!, before)) return before
  const { allowed_hosts: _, ...rest } = before
  const state = { revision: newId(), ...(expected !== undefined && { base_revision: expected, mutation_id: id }) }
  return { ...rest, ...(hosts && { allowed_hosts: hosts }), allowlist_state: state }
}

export const networkOption = option({
  create: CreateNetwork.optional(),
  update: UpdateNetwork.optional(),
  // Its rules are kept by a proxy.
  store: (given): Network | undefined =>
    given && Object.keys(given).length > 0
      ? {
          ...(given.private_hosts && { private_hosts: given.private_hosts }),
          // By now, references.ts has replaced names by ids.
          ...(given.proxy_routes && { proxy_routes: given.proxy_routes.map(({ hosts, proxy }) => ({ hosts, proxy: { id: proxy.id! } })) }),
          ...(given.allowed_hosts && { allowed_hosts: given.allowed_hosts, allowlist_state: { revision: newId() } }),
        }
      : undefined,
  refuseUpdate: (given, _, before) => refuseUpdate(given, before),
  restore: (given, before) => updated(given, before),
  fit: (given) => (given?.allowed_hosts || given?.proxy_routes?.length ? { proxy: { on: true } } : {}),
  // An update concerns only the forwarder, not the browser (../browsers/session-proxies.ts).
  reply: { schema: Network.optional(), show: (stored) => stored },
})

/** Whether the traffic of a session with this network goes through the forwarder, even without a proxy. */
export const isForwarded = (network: Network | undefined): boolean => (network?.proxy_routes ?? []).length > 0 || network?.allowlist_state !== undefined

/** Why a session cannot open this page; undefined when it can. */
export function refuseStart(network: Pick<Network, 'allowed_hosts' | 'private_hosts'> | undefined, url: string | undefined): string | undefined {
  const { protocol, hostname = '', port } = (url ? URL.parse(url) : null) ?? {}
  if (!network?.allowed_hosts || !/^https?:$/.test(protocol ?? '')) return undefined
  const host = hostname.replace(/^\[|\]$/g, '')
  const at = Number(port || (protocol === 'https:' ? 443 : 80))
  const direct = (network.private_hosts ?? []).map(splitPort).flatMap((entry) => (entry.port === undefined || entry.port === at ? [entry.host] : []))
  return isListed(host, [...network.allowed_hosts, ...direct]) ? undefined : 'is none of the allowed_hosts'
}
