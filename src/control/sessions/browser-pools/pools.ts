// The rules of browser pools: create, find, change, delete; lend browsers and take them back; how the browsers of a pool are made.
import { newId } from '../../../base/ids.ts'
import type { Log } from '../../../base/log.ts'
import { fault } from '../../../http/fault.ts'
import type { Page } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import { pageOf, type Asked } from '../../../store/lists.ts'
import { NoSeat } from '../../../store/seats.ts'
import { refuseCreate, storedOptions, type Fitter } from '../browsers/fitter.ts'
import type { Browser } from '../browsers/contract.ts'
import type { Fleet } from '../browsers/fleet.ts'
import type { PoolSource } from '../browsers/fleet/settings.ts'
import { KEPT_POLICY } from '../browsers/options/contract.ts'
import type { LookUp } from '../browsers/options/look-up.ts'
import type { Place, Region } from '../browsers/options/option/contract.ts'
import { problemOf, type Acquisitions } from '../browsers/acquisitions.ts'
import { named, seated } from '../browsers/refused.ts'
import { refuseStart } from '../network/contract.ts'
import type { Profiles } from '../profiles/profiles.ts'
import { merged, saysSomething, telemetryProblem, type GivenTelemetry, type StoredTelemetry } from '../telemetry/contract.ts'
import { hasSameBrowsers, normal, ofBrowser, split, updated, whole, type WholeConfig } from './config.ts'
import { MAX_WAIT_SECONDS, type AcquireBrowser, type BrowserPool, type CreatePool, type UpdatePool } from './contract.ts'
import {
  changePool,
  countedPool,
  deletePool,
  findPool,
  insertPool,
  listPools,
  notePoolProblem,
  poolOfCaller,
  poolSeats,
  type CountedPool,
  type PoolRow,
  type Resolved,
  type Within,
} from './rows.ts'

/** Attempts to store a change while other callers change the same pool. */
const CHANGE_TRIES = 5
/** Limit on the text about a browser that could not be made, in characters. */
const MAX_PROBLEM = 500

interface PoolsSettings {
  db: Db
  scope: string
  place: Place
  maxBrowsers: number
  fleet: Fleet
  acquisitions: Acquisitions
  lookUp: LookUp
  profiles: Pick<Profiles, 'chosen' | 'choose'>
}

export type BrowserPools = ReturnType<typeof makeBrowserPools>

export function makeBrowserPools({ db, scope, place, maxBrowsers, fleet, acquisitions, lookUp, profiles }: PoolsSettings) {
  const { pools, discards } = fleet

  /** Runs `query` for a pool. @throws 404 */
  async function found<T>(query: (db: Db, within: Within, idOrName: string) => Promise<T | undefined>, project: string, idOrName: string): Promise<T> {
    const row = await query(db, { scope, project }, idOrName)
    if (!row) throw fault.notFound('browser pool', idOrName)
    return row
  }

  /** @throws 404 */
  const shown = async (project: string, idOrName: string): Promise<BrowserPool> =>
    shownPool(await found((...asked) => countedPool(...asked, KEPT_POLICY), project, idOrName), place)

  /** @throws 400 when this service cannot make such browsers, or when a named object does not exist */
  async function resolve(project: string, config: WholeConfig): Promise<Resolved> {
    const wanted = ofBrowser(config)
    const refusal = refuseCreate(wanted, place)
    if (refusal) throw fault.field(refusal.field, refusal.problem)
    const { options, brought } = await lookUp(project, wanted)
    const { profile } = config
    const destination = merged(options.telemetry)?.destination
    return {
      extension_ids: brought?.ids ?? [],
      ...(profile && { profile_id: (await profiles.chosen(project, profile)).id }),
      ...(destination !== undefined && { destination_id: destination }),
    }
  }

  /** Runs a `change` that gives a pool `more` seats. */
  async function store(
    project: string,
    name: string | null,
    size: number,
    more: number,
    change: (db: Db) => Promise<boolean>,
    signal: AbortSignal,
  ): Promise<boolean> {
    if (size > maxBrowsers) throw fault.field('size', `must be at most ${maxBrowsers}, the limit of this machine (COB_MAX_BROWSERS)`)
    const work = fleet.seatPool(project, more, change, signal).catch((error: unknown) => {
      const limit = error instanceof NoSeat ? error.projectLimit : undefined
      if (limit !== undefined && size > limit) throw fault.field('size', `must be at most ${limit}, the limit of this project (max_concurrent_sessions)`)
      throw error
    })
    return seated(project, more, maxBrowsers, named(name, work, { table: 'browser_pools', one: 'a browser pool' }))
  }

  return {
    /** @throws 400; 409 when the name is taken; 429 when there are not enough seats */
    async create(project: string, { name, size, ...given }: CreatePool, signal: AbortSignal): Promise<BrowserPool> {
      const config = normal(given)
      const resolved = await resolve(project, config)
      const id = newId()
      const row = { id, scope, project_id: project, name: name || null, size, ...split(config), resolved }
      await store(project, row.name, size, size, async (tx) => (await insertPool(tx, row), true), signal)
      await pools.changed()
      return shown(project, id)
    },
    async list(project: string, { region, ...filter }: Asked & { region?: Region | undefined }): Promise<Page<BrowserPool>> {
      if (region !== undefined && region !== place.region) return { items: [], nextOffset: undefined }
      return pageOf(await listPools(db, { scope, project }, filter, KEPT_POLICY), filter, (row) => shownPool(row, place))
    },
    get: shown,
    /** @throws 400; 404; 409; 429 when there are not enough seats */
    async update(project: string, idOrName: string, changes: UpdatePool, signal: AbortSignal): Promise<BrowserPool> {
      const { id } = await found(poolOfCaller, project, idOrName)
      for (let left = CHANGE_TRIES; ; left--) {
        if (left === 0) throw fault.conflict('this pool is being changed by others at the same time')
        const row = await found(findPool, project, id)
        const before = whole(row)
        const config = updated(before, changes)
        // A pool whose proxy or profile was deleted can still be renamed, or made smaller.
        const resolved = hasSameBrowsers(config, before) ? row.resolved : await resolve(project, config)
        const [name, size] = [changes.name || row.name, changes.size ?? row.size]
        // After a pool was made smaller, callers may have more of its browsers than its size.
        const seats = Math.max(row.size, await poolSeats(db, id))
        const change = (tx: Db) => changePool(tx, id, row.generation, { name, size, ...split(config), resolved }, changes.discard_all_idle)
        if (await store(project, name, size, Math.max(0, size - seats), change, signal)) break
      }
      await (changes.discard_all_idle ? discards.idle(id) : pools.changed())
      return shown(project, id)
    },
    /** Resolves when no caller can reach its browsers. @throws 404; 409 when callers have some, unless `force` */
    async delete(project: string, idOrName: string, force: boolean): Promise<void> {
      const { id } = await found(poolOfCaller, project, idOrName)
      const acquired = await deletePool(db, id, force)
      if (acquired === undefined) throw fault.notFound('browser pool', idOrName)
      if (acquired > 0 && !force) throw fault.conflict(`callers have ${acquired} browsers of this pool; with force, they are ended`)
      await pools.changed()
      await Promise.all([discards.idle(id), force ? discards.ofDeletedPools() : undefined])
    },
    /** A browser of the pool; undefined when none was free in time. @throws 400; 404; 409 when the name is taken; 503 when none can be made */
    async acquire(project: string, idOrName: string, wanted: AcquireBrowser, origin: string, signal: AbortSignal): Promise<Browser | undefined> {
      const { profile, acquire_timeout_seconds: seconds, name, tags = {}, start_url, telemetry: given } = wanted
      const pool = await found(poolOfCaller, project, idOrName)
      const problem = refuseStart(pool.config.network, start_url)
      if (problem !== undefined) throw fault.field('start_url', problem)
      if (profile && pool.config.profile) throw fault.field('profile', 'this pool has a profile of its own; use a pool without one')
      const chosen = await profiles.choose(project, profile, signal)
      const fills = pool.config.fill_rate_per_minute > 0 ? Math.ceil((100 * 60) / pool.config.fill_rate_per_minute) : Infinity
      const waitMs = Math.min(seconds ?? fills, MAX_WAIT_SECONDS) * 1000
      const telemetry = await captured(lookUp, project, given, telemetryOf(pool))
      return acquisitions.acquire(pool, { name, tags, start_url, telemetry }, chosen, waitMs, origin, signal)
    },
    /** @throws 404 */
    async release(project: string, idOrName: string, sessionId: string, reuse: boolean): Promise<void> {
      await acquisitions.release(await found(poolOfCaller, project, idOrName), sessionId, reuse)
    },
    /** Resolves when its idle browsers have ended, or the first attempts to end them are over. @throws 404 */
    async flush(project: string, idOrName: string): Promise<void> {
      await discards.idle((await found(poolOfCaller, project, idOrName)).id)
    },
  }
}

/** The answer for a pool. */
const shownPool = ({ id, name, size, config, chrome_policy: policy, resolved, ...row }: CountedPool, { region }: Place): BrowserPool => ({
  id,
  ...(name !== null && { name }),
  created_at: row.created_at.toISOString(),
  region,
  acquired_count: row.acquired,
  available_count: row.available,
  browser_pool_config: { size, ...(name !== null && { name }), ...config, ...(policy && { chrome_policy: policy }) },
  extension_ids: [...resolved.extension_ids],
  ...(resolved.profile_id !== undefined && { profile_id: resolved.profile_id }),
  ...(row.problem !== null && { problem: row.problem }),
})

/** The telemetry of the pool's browsers. The destination is found by its id, so it may have been renamed. */
function telemetryOf({ config: { telemetry }, resolved: { destination_id: id } }: Pick<PoolRow, 'config' | 'resolved'>): GivenTelemetry | undefined {
  const otlp = telemetry?.export?.otlp
  return otlp?.destination && id !== undefined ? { ...telemetry, export: { otlp: { ...otlp, destination: { id } } } } : telemetry
}

/** The telemetry of a browser for a caller with this setting. Undefined: as the pool says; null: none. @throws 400 */
async function captured(
  lookUp: LookUp,
  project: string,
  given: GivenTelemetry | undefined,
  ofPool: GivenTelemetry | undefined,
): Promise<StoredTelemetry | null | undefined> {
  if (!saysSomething(given)) return undefined
  const [base, own] = await Promise.all([ofPool, given].map(async (telemetry) => (await lookUp(project, { telemetry })).options.telemetry))
  const before = merged(base)
  const refusal = telemetryProblem(own, before, true)
  if (refusal) throw fault.field(refusal.field, refusal.problem)
  return merged(own, before) ?? null
}

interface PoolSourceSettings extends Pick<PoolsSettings, 'db' | 'scope' | 'lookUp' | 'profiles' | 'place'> {
  fitter: Fitter
  log: Log
}

/** Tells the fleet how to make browsers of pools. */
export function makePoolSource({ db, scope, fitter, lookUp, profiles, place, log }: PoolSourceSettings): PoolSource {
  return {
    async plan(id) {
      const row = await findPool(db, { scope, project: undefined }, id)
      if (!row?.project_id) return undefined
      const config = whole(row)
      const { options, brought } = await lookUp(row.project_id, { ...ofBrowser(config), telemetry: telemetryOf(row) })
      // Do not wait for a session that is saving into the profile: after the save, the browser is replaced.
      const profile = config.profile && { ...(await profiles.chosen(row.project_id, config.profile)), save: false }
      const stored = storedOptions(options, place)
      const { viewport, maxScreen, lean } = stored
      return {
        ownership: {
          project: row.project_id,
          name: undefined,
          tags: {},
          options: stored,
          timeoutSeconds: config.timeout_seconds,
          pool: id,
          generation: row.generation,
          baseline: { options: stored, ...(profile && { profile_id: profile.id }) },
        },
        spec: { viewport, maxScreen, lean },
        async configure(made, within) {
          const state = { viewport, fullscreen: false, stealth: false }
          // An idle browser captures no telemetry.
          const { telemetry: _, ...wanted } = options
          await fitter.configure(made, { wanted, brought, profile, state }, (rest, ms) => fitter.fit(made, rest, within, ms), within)
        },
      }
    },
    made(id, error) {
      const problem = error === undefined ? null : problemOf(error).slice(0, MAX_PROBLEM)
      void notePoolProblem(db, id, problem).catch((err: unknown) => log.debug({ err, pool: id }, 'what a pool has come to could not be recorded'))
    },
  }
}
