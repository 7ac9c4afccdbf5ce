// The contract of the Browsers group.
import { z } from 'zod'
import { PUBLIC_SOCKETS } from '../../agent/session/contract.ts'
import { isId } from '../../base/ids.ts'
import { json, none, page, pagingQuery, queryBoolean, route } from '../../http/route.ts'

const group = 'Browsers'

/** Whether a value asks for nothing, in the ways that clients write "none": `null`, `""`, `[]`, `{}`, `{enabled: false}`. */
const isOff = (value: unknown): boolean => {
  if (typeof value !== 'object' || value === null) return value === undefined || value === null || value === false || value === ''
  return Array.isArray(value) ? value.length === 0 : Object.values(value).every(isOff)
}

/** An option of the API that is not implemented. It is refused by name unless it {@link isOff asks for nothing}, and never ignored. */
const notBuilt = (what: string, isGiven: (value: unknown) => boolean = () => false) =>
  z
    .unknown()
    .refine((value) => isOff(value) || isGiven(value), `${what} not built yet in this version of Cob`)
    .transform(() => undefined)
    .optional()

/** `{mode: default | direct}`: sessions reach the network directly, stealth or not, because Cob has no proxy. */
const isDirect = (value: unknown): boolean => {
  const { mode, ...rest } = value as { mode?: unknown }
  return (mode === 'direct' || mode === 'default') && isOff(rest)
}
const Proxy = notBuilt('proxies are', isDirect)

/** The regions that the API knows. A service is in one of them (COB_REGION). */
export const Region = z.enum(['us-east', 'us-west', 'eu-west', 'ap-southeast'])
export type Region = z.output<typeof Region>

/** The memory sizes that the API knows, smallest first. */
export const Memory = z.enum(['1GiB', '2GiB', '4GiB', '6GiB', '8GiB', '12GiB', '16GiB'])
export type Memory = z.output<typeof Memory>

/** Options of newer clients, for new sessions and for running ones. */
const newer = {
  proxy: Proxy,
  location: notBuilt('a location is'),
  network: notBuilt('rules for the network are'),
  profile_save_changes: notBuilt('profiles are'),
}

const Name = z
  .string()
  .min(1)
  .max(255)
  .refine((name) => !isId(name.toLowerCase()), 'must not look like an id (24 letters and digits)')

const Tags = z.record(z.string().min(1).max(255), z.string().max(1024)).refine((tags) => Object.keys(tags).length <= 50, 'at most 50 tags')

/** The largest screen that an X server is started with. */
const MAX_SIDE = 7680
const viewport = {
  width: z.int().min(100).max(MAX_SIDE),
  height: z.int().min(100).max(MAX_SIDE),
  refresh_rate: z.int().min(1).max(240).optional(),
}

const StartUrl = z
  .string()
  .max(2048)
  .refine((url) => URL.canParse(url) && new URL(url).protocol !== 'javascript:', 'must be an absolute URL')

/** Policies that would take control of the browser away from Cob, or let its traffic escape the session's rules. */
const CLOSED_POLICY =
  /^(Extension|BlockExternalExtensions|Proxy|RemoteDebugging|DeveloperTools|HeadlessMode|WebDriver|UserDataDir|DiskCacheDir|CommandLineFlagSecurityWarningsEnabled)/
const MAX_POLICY_BYTES = 5 * 1024 * 1024

const ChromePolicy = z
  .record(z.string(), z.unknown())
  .refine((policy) => JSON.stringify(policy).length <= MAX_POLICY_BYTES, 'is larger than 5 MiB')
  .superRefine((policy, context) => {
    for (const name of Object.keys(policy).filter((key) => CLOSED_POLICY.test(key)))
      context.addIssue({ code: 'custom', path: [name], message: 'policies for extensions, proxy and automation are not accepted' })
  })

export const CreateBrowser = z.strictObject({
  headless: z.boolean().default(false),
  viewport: z.strictObject(viewport).optional(),
  start_url: StartUrl.optional(),
  timeout_seconds: z.int().min(10).max(259_200).default(60),
  name: Name.optional(),
  tags: Tags.optional(),
  kiosk_mode: z.boolean().default(false),
  stealth: z.boolean().default(false),
  chrome_policy: ChromePolicy.optional(),
  gpu: notBuilt('GPU browsers are'),
  profile: notBuilt('profiles are'),
  proxy_id: notBuilt('proxies are'),
  extensions: notBuilt('extensions are'),
  /** A run of an app that has not ended. The session ends with it. */
  invocation_id: z.string().min(1).max(255).optional(),
  telemetry: notBuilt('telemetry is'),
  ...newer,
  vaults: notBuilt('vaults are'),
  video_memory: notBuilt('GPU browsers are'),
  /** The region of the session. Refused when this service is in another one. */
  region: Region.optional(),
  /** The least memory of the session. Refused when sessions of this service have less. */
  memory: Memory.optional(),
})
export type CreateBrowser = z.output<typeof CreateBrowser>

export const UpdateBrowser = z.strictObject({
  /** Empty or null removes the name. */
  name: z.union([Name, z.literal(''), z.null()]).optional(),
  /** Replaces all tags; `{}` or null removes them. */
  tags: Tags.nullable().optional(),
  viewport: z.strictObject({ ...viewport, force: z.boolean().default(false) }).optional(),
  profile: notBuilt('profiles are'),
  proxy_id: notBuilt('proxies are'),
  /** There is no default proxy, so both values describe every session. */
  disable_default_proxy: z.boolean().optional(),
  telemetry: notBuilt('telemetry is'),
  ...newer,
  /** Opened after all other changes. Empty opens nothing. */
  start_url: z.union([StartUrl, z.literal('')]).optional(),
})
export type UpdateBrowser = z.output<typeof UpdateBrowser>

const Time = z.iso.datetime()

/** A session. */
export const Browser = z.object({
  session_id: z.string(),
  created_at: Time,
  cdp_ws_url: z.string(),
  webdriver_ws_url: z.string(),
  base_url: z.string().optional(),
  browser_live_view_url: z.string().optional(),
  headless: z.boolean(),
  stealth: z.boolean(),
  kiosk_mode: z.boolean(),
  timeout_seconds: z.int(),
  region: Region,
  memory: Memory,
  viewport: z.object({ width: z.int(), height: z.int(), refresh_rate: z.int() }),
  name: z.string().optional(),
  tags: z.record(z.string(), z.string()).optional(),
  start_url: z.string().optional(),
  chrome_policy: z.record(z.string(), z.unknown()).optional(),
  usage: z.object({ uptime_ms: z.int() }),
  deleted_at: Time.optional(),
})
export type Browser = z.output<typeof Browser>

const params = z.strictObject({ id_or_name: z.string().min(1) })

export const browsers = {
  createBrowser: route({
    method: 'POST',
    path: '/browsers',
    id: 'createBrowser',
    group,
    summary: 'Create a browser session',
    body: CreateBrowser,
    bodyOptional: true,
    maxBodyBytes: MAX_POLICY_BYTES + 1024 * 1024,
    reply: json(Browser),
    needsRoom: true,
    faults: ['conflict', 'too_many_requests', 'unavailable'],
    deadlineMs: 120_000,
  }),
  listBrowsers: route({
    method: 'GET',
    path: '/browsers',
    id: 'listBrowsers',
    group,
    summary: 'List browser sessions, newest first',
    query: z.strictObject({
      ...pagingQuery,
      status: z.enum(['active', 'deleted', 'all']).optional(),
      include_deleted: queryBoolean.optional(),
      /** Part of a name, or a whole id. */
      query: z.string().max(255).optional(),
      /** `tags[k]=v`: all must match. */
      tags: z.record(z.string(), z.string()).optional(),
      region: Region.optional(),
    }),
    reply: page(Browser),
  }),
  getBrowser: route({
    method: 'GET',
    path: '/browsers/{id_or_name}',
    id: 'getBrowser',
    group,
    summary: 'Get a browser session',
    params,
    query: z.strictObject({ include_deleted: queryBoolean.default(false) }),
    reply: json(Browser),
    faults: ['not_found'],
  }),
  updateBrowser: route({
    method: 'PATCH',
    path: '/browsers/{id_or_name}',
    id: 'updateBrowser',
    group,
    summary: 'Change a browser session',
    params,
    body: UpdateBrowser,
    bodyOptional: true,
    reply: json(Browser),
    faults: ['not_found', 'conflict', 'unavailable'],
  }),
  deleteBrowser: route({
    method: 'DELETE',
    path: '/browsers/{id_or_name}',
    id: 'deleteBrowser',
    group,
    summary: 'Delete a browser session',
    params,
    reply: none(),
    faults: ['not_found'],
  }),
}

const cdpRoute = {
  params: z.strictObject({ id: z.string().min(1) }),
  query: z.strictObject({ jwt: z.string().optional() }),
  group: 'CDP',
  access: 'session',
} as const
const CdpPage = z.object({
  id: z.string(),
  type: z.string(),
  title: z.string(),
  url: z.string(),
  description: z.string(),
  webSocketDebuggerUrl: z.string(),
})

/** DevTools' HTTP interface below the session's CDP address, for clients that start with an `http://` address. */
export const cdpHttp = {
  cdpVersion: route({
    ...cdpRoute,
    method: 'GET',
    path: `${PUBLIC_SOCKETS.cdp}/json/version`,
    id: 'cdpVersion',
    summary: 'Get the version of the browser and its CDP address, as Chromium reports them',
    reply: json(
      z.object({
        Browser: z.string(),
        'Protocol-Version': z.string(),
        'User-Agent': z.string(),
        'V8-Version': z.string(),
        'WebKit-Version': z.string(),
        webSocketDebuggerUrl: z.string(),
      }),
    ),
    faults: ['not_found', 'unavailable'],
  }),
  cdpList: route({
    ...cdpRoute,
    method: 'GET',
    path: `${PUBLIC_SOCKETS.cdp}/json/list`,
    id: 'cdpList',
    summary: 'List the pages of the browser and their CDP addresses, as Chromium reports them',
    reply: json(z.array(CdpPage)),
    faults: ['not_found', 'unavailable'],
  }),
  cdpPages: route({
    ...cdpRoute,
    method: 'GET',
    path: `${PUBLIC_SOCKETS.cdp}/json`,
    id: 'cdpPages',
    summary: 'List the pages of the browser, like /json/list',
    reply: json(z.array(CdpPage)),
    faults: ['not_found', 'unavailable'],
  }),
}
