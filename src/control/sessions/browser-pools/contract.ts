// The contract of the Browser Pools group: browsers of one configuration that are kept ready, lent to callers and given back.
import * as z from 'zod'
import { isId } from '../../../base/ids.ts'
import { json, MAX_INTEGER, nameQuery, none, page, pagingQuery, route } from '../../../http/route.ts'
import { Browser, Name as SessionName, Tags } from '../browsers/contract.ts'
import { MAX_POLICY_BYTES, OPTIONS, StartUrl } from '../browsers/options/contract.ts'
import { createShape, Memory, Region } from '../browsers/options/option/contract.ts'
import { refuseStart } from '../network/contract.ts'
import { oneWayOut } from '../proxies/contract.ts'
import { GivenTelemetry } from '../telemetry/contract.ts'

const group = 'Browser Pools'
const Time = z.iso.datetime()

/** How much of a pool is replaced in a minute, in percent, unless its caller says otherwise: as in the original service. */
const DEFAULT_FILL_RATE = 25
/** At this rate, all browsers of a pool are replaced each second. */
const MAX_FILL_RATE = 6_000
/** As in the original service. */
const DEFAULT_TIMEOUT_SECONDS = 600
const MAX_TIMEOUT_SECONDS = 259_200
/** Longest wait of an acquire, even if the caller asks for more: published clients time out after 60 s. */
export const MAX_WAIT_SECONDS = 50

/** An empty name means no name. */
const Name = z
  .string()
  .max(255)
  .refine((name) => !isId(name.toLowerCase()), 'must not look like an id (24 letters and digits)')
  .optional()

/** The profile of a pool is never saved, so `save_changes` is accepted and has no effect. Without id and name: no profile. */
const PoolProfile = z
  .strictObject({ id: z.string().max(255).optional(), name: z.string().max(255).optional(), save_changes: z.boolean().optional() })
  .refine(({ id, name }) => !(id && name), { path: ['name'], error: 'cannot be given together with id' })
  .transform(({ id, name }): { id?: string; name?: string } => (id ? { id } : name ? { name } : {}))

const { profile: SessionProfile, profile_save_changes: _, headless, stealth, kiosk_mode, start_url, network, ...others } = createShape(OPTIONS)

const fillRate = z.int().min(0).max(MAX_FILL_RATE)
const timeout = z.int().min(10).max(MAX_TIMEOUT_SECONDS)
const size = z.int().min(1).max(MAX_INTEGER)

const common = {
  ...others,
  network,
  profile: PoolProfile.optional(),
  name: Name,
  /** Whether idle browsers are replaced when the pool's profile is saved. True by default for a pool with a profile. */
  refresh_on_profile_update: z.boolean().optional(),
}

interface Configured {
  network?: z.output<typeof network>
  start_url?: string | undefined
  profile?: z.output<typeof PoolProfile> | undefined
  refresh_on_profile_update?: boolean | undefined
}

/** Problems of a whole configuration that its single fields do not show. */
export function poolProblems({
  network: reach,
  start_url: url,
  profile,
  refresh_on_profile_update: refresh,
}: Configured): { field: string; problem: string }[] {
  const start = refuseStart(reach, url)
  return [
    ...(start === undefined ? [] : [{ field: 'start_url', problem: start }]),
    ...(refresh && !profile?.id && !profile?.name ? [{ field: 'refresh_on_profile_update', problem: 'needs a profile' }] : []),
  ]
}

export const CreatePool = z
  .strictObject({
    ...common,
    headless,
    stealth,
    kiosk_mode,
    start_url,
    size,
    fill_rate_per_minute: fillRate.default(DEFAULT_FILL_RATE),
    timeout_seconds: timeout.default(DEFAULT_TIMEOUT_SECONDS),
  })
  .superRefine(oneWayOut)
  .superRefine((pool, context) => {
    for (const { field, problem } of poolProblems(pool)) context.addIssue({ code: 'custom', path: [field], message: problem })
  })
export type CreatePool = z.output<typeof CreatePool>

/**
 * Fields that are left out stay the same. Empty values clear a field: "" for `proxy_id` and `start_url`, [] for `extensions`, {} for `chrome_policy` and
 * `network`, {id: ""} for `profile`. An empty name changes nothing.
 */
export const UpdatePool = z
  .strictObject({
    ...common,
    headless: z.boolean().optional(),
    stealth: z.boolean().optional(),
    kiosk_mode: z.boolean().optional(),
    start_url: z.union([StartUrl, z.literal('')]).optional(),
    size: size.optional(),
    fill_rate_per_minute: fillRate.optional(),
    timeout_seconds: timeout.optional(),
    /** The network that the caller has seen; {} for none. */
    expected_network: network,
    /** Replaces idle browsers at once. Otherwise they keep their old configuration until they end. */
    discard_all_idle: z.boolean().default(false),
  })
  .superRefine(oneWayOut)
export type UpdatePool = z.output<typeof UpdatePool>

export const AcquireBrowser = z.strictObject({
  /** How long to wait for a browser. By default, until the pool could be filled at its rate; never longer than 50 s. 0 does not wait. */
  acquire_timeout_seconds: z.int().min(0).max(MAX_TIMEOUT_SECONDS).optional(),
  name: SessionName.optional(),
  tags: Tags.optional(),
  start_url: StartUrl.optional(),
  /** A profile for this caller, in a pool without one. The browser ends when it is given back. */
  profile: SessionProfile,
  /** Telemetry for this caller, merged into the pool's setting. */
  telemetry: GivenTelemetry.optional(),
})
export type AcquireBrowser = z.output<typeof AcquireBrowser>

const Choice = z.object({ id: z.string().optional(), name: z.string().optional() })

/** A configuration as the caller gave it, with defaults for numbers and switches. */
export const PoolConfig = z.object({
  size: z.int(),
  fill_rate_per_minute: z.int(),
  timeout_seconds: z.int(),
  headless: z.boolean(),
  stealth: z.boolean(),
  kiosk_mode: z.boolean(),
  name: z.string().optional(),
  viewport: z.object({ width: z.int(), height: z.int(), refresh_rate: z.int().optional() }).optional(),
  memory: Memory.optional(),
  start_url: z.string().optional(),
  profile: Choice.optional(),
  refresh_on_profile_update: z.boolean().optional(),
  extensions: z.array(Choice).optional(),
  proxy: Choice.extend({ mode: z.string().optional() }).optional(),
  proxy_id: z.string().optional(),
  network: z
    .object({
      allowed_hosts: z.array(z.string()).optional(),
      private_hosts: z.array(z.string()).optional(),
      proxy_routes: z.array(z.object({ hosts: z.array(z.string()), proxy: Choice })).optional(),
    })
    .optional(),
  telemetry: GivenTelemetry.optional(),
  /** Absent if it has more than 64 KiB. */
  chrome_policy: z.record(z.string(), z.unknown()).optional(),
})
export type PoolConfig = z.output<typeof PoolConfig>

export const BrowserPool = z.object({
  id: z.string(),
  name: z.string().optional(),
  created_at: Time,
  region: Region,
  /** Browsers that callers have. */
  acquired_count: z.int(),
  /** Browsers that wait for a caller. */
  available_count: z.int(),
  browser_pool_config: PoolConfig,
  extension_ids: z.array(z.string()),
  profile_id: z.string().optional(),
  /** Why the last browser could not be made; absent when it could. */
  problem: z.string().optional(),
})
export type BrowserPool = z.output<typeof BrowserPool>

const params = z.strictObject({ id_or_name: z.string().min(1) })
const maxBodyBytes = MAX_POLICY_BYTES + 1024 * 1024

export const browserPools = {
  createBrowserPool: route({
    method: 'POST',
    path: '/browser_pools',
    id: 'createBrowserPool',
    group,
    summary: 'Create a pool of browsers of one configuration, which is then filled',
    body: CreatePool,
    maxBodyBytes,
    needsRoom: true,
    reply: json(BrowserPool),
    faults: ['conflict', 'too_many_requests'],
  }),
  listBrowserPools: route({
    method: 'GET',
    path: '/browser_pools',
    id: 'listBrowserPools',
    group,
    summary: 'List browser pools, newest first',
    query: z.strictObject({
      ...pagingQuery,
      ...nameQuery,
      region: Region.optional(),
    }),
    reply: page(BrowserPool),
  }),
  getBrowserPool: route({
    method: 'GET',
    path: '/browser_pools/{id_or_name}',
    id: 'getBrowserPool',
    group,
    summary: 'Get a browser pool',
    params,
    reply: json(BrowserPool),
    faults: ['not_found'],
  }),
  updateBrowserPool: route({
    method: 'PATCH',
    path: '/browser_pools/{id_or_name}',
    id: 'updateBrowserPool',
    group,
    summary: 'Change the configuration of a browser pool; browsers that callers have keep theirs',
    params,
    body: UpdatePool,
    bodyOptional: true,
    maxBodyBytes,
    needsRoom: true,
    reply: json(BrowserPool),
    faults: ['not_found', 'conflict', 'too_many_requests'],
  }),
  deleteBrowserPool: route({
    method: 'DELETE',
    path: '/browser_pools/{id_or_name}',
    id: 'deleteBrowserPool',
    group,
    summary: 'Delete a browser pool with its browsers',
    params,
    body: z.strictObject({
      /** Deletes the pool also while callers have browsers of it; these end. */
      force: z.boolean().default(false),
    }),
    bodyOptional: true,
    reply: none(),
    faults: ['not_found', 'conflict'],
  }),
  acquireBrowser: route({
    method: 'POST',
    path: '/browser_pools/{id_or_name}/acquire',
    id: 'acquireBrowser',
    group,
    summary: 'Get a browser of a pool; waits for one when all are taken',
    params,
    body: AcquireBrowser,
    bodyOptional: true,
    reply: json(Browser, 200, 'None was free within the time; ask again.'),
    faults: ['not_found', 'conflict', 'unavailable'],
    // After the wait, a profile may be loaded.
    deadlineMs: 120_000,
  }),
  releaseBrowser: route({
    method: 'POST',
    path: '/browser_pools/{id_or_name}/release',
    id: 'releaseBrowser',
    group,
    summary: 'Give a browser back to its pool',
    params,
    body: z.strictObject({
      session_id: z.string().min(1).max(255),
      /** The next caller gets the same browser, with its state. Otherwise it ends, and a new one replaces it. */
      reuse: z.boolean().default(true),
    }),
    reply: none(),
    faults: ['not_found'],
  }),
  flushBrowserPool: route({
    method: 'POST',
    path: '/browser_pools/{id_or_name}/flush',
    id: 'flushBrowserPool',
    group,
    summary: 'End the idle browsers of a pool, and make them anew; browsers that callers have stay',
    params,
    reply: none(),
    faults: ['not_found'],
  }),
}
