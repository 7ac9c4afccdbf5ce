// The rules of sessions: create, find, change, end, reach.
import { fitting, PUBLIC_SOCKETS, session, type Fit, type Viewport } from '../../agent/session/contract.ts'
import { isId } from '../../base/ids.ts'
import type { Log } from '../../base/log.ts'
import { Mutexes } from '../../base/mutex.ts'
import { Unavailable } from '../../base/unavailable.ts'
import { call, CallFailed } from '../../http/client.ts'
import { assertOffered, type Endpoint } from '../../http/endpoint.ts'
import { Fault, fault } from '../../http/fault.ts'
import { pathTo, type Page, type Principal } from '../../http/route.ts'
import { USUAL_MAX_SCREEN } from '../../instances/driver.ts'
import { isDuplicate, isProjectGone, type Db } from '../../store/db.ts'
import { NoSeat } from '../../store/seats.ts'
import type { Activity } from './activity.ts'
import type { Browser, CreateBrowser, UpdateBrowser } from './contract.ts'
import type { Fleet } from './fleet.ts'
import type { ReadyState } from './fleet/kinds.ts'
import {
  findBrowser,
  isUnfinished,
  leftByInvocations,
  listBrowsers,
  liveIdsOfInvocation,
  liveOfInvocation,
  type BrowserRow,
  type ListFilter,
  type Ownership,
} from './rows.ts'
import { SESSION_PATH } from './instance-apis.ts'
import { OPTIONS } from './options/contract.ts'
import type { Booted, Place, Refusal, Region } from './options/option/contract.ts'
import type { Brought, LookUp } from './options/look-up.ts'
import { optionRules } from './options/rules.ts'
import { makeChange } from './change.ts'
import { withSave, type Chosen, type SessionProfiles } from './session-profiles.ts'
import type { SessionProxies } from './session-proxies.ts'
import type { Connection, Uses } from './standby.ts'
import type { Endpoints } from './stored-endpoint.ts'
import type { SessionTokens } from './tokens.ts'

/** Timeout for fitting: a policy restarts Chromium; everything else takes milliseconds. */
const FIT_MS = 30_000
/** The same for a warm browser, which another one can replace: if it hangs, its caller should not wait for half a minute. */
const WARM_FIT_MS = 10_000
/** Limit on sending a browser what its options name: 20 extensions of the largest size, on a busy machine. */
const BRING_MS = 60_000
/** Retry-After when the machine is full: a session may end at any moment. */
const FULL_RETRY_SECONDS = 5

/** Most calls and WebSockets of one session at the same time. Each uses descriptors of the service that other sessions need, too. */
const MAX_CALLS = 256
const CALLS_RETRY_SECONDS = 1

const options = optionRules(OPTIONS)
export type BrowserRules = typeof options

interface BrowsersSettings {
  db: Db
  fleet: Fleet
  endpoints: Endpoints
  tokens: SessionTokens
  /** The path of a session's live view. */
  livePath: (sessionId: string) => string
  activity: Activity
  uses: Uses
  lookUp: LookUp
  profiles: SessionProfiles
  scope: string
  place: Place
  sessionProxies: SessionProxies
  maxBrowsers: number
  log: Log
}

export interface Browsers {
  create(by: Principal, wanted: CreateBrowser, origin: string, signal: AbortSignal): Promise<Browser>
  list(by: Principal, filter: ListFilter & { region: Region | undefined }, origin: string): Promise<Page<Browser>>
  get(by: Principal, idOrName: string, includeDeleted: boolean, origin: string): Promise<Browser>
  update(by: Principal, idOrName: string, changes: UpdateBrowser, origin: string, signal: AbortSignal): Promise<Browser>
  /**
   * Ends a session; resolves when it is out of use. `isRemoved`: when nothing is left of it, or the first attempt to end it has failed; also for one that is being ended.
   */
  delete(by: Principal, idOrName: string, isRemoved: boolean): Promise<void>
  /** The live sessions of an app's run, newest first. All are of the run's project. */
  ofInvocation(invocationId: string, origin: string): Promise<Browser[]>
  /** Ends the sessions of a run. */
  endOfInvocation(invocationId: string): Promise<void>
  /** Ends the sessions of all runs that have ended. */
  endLeftByInvocations(): Promise<void>
  /** The project of a live session, for the holder of its token; undefined when it has ended. */
  projectOf(id: string): Promise<string | undefined>
  /** The name of a live session, for the same. */
  nameOf(id: string): Promise<string | undefined>
  /**
   * The agent of a running session of a project, by id or name; of any, when a secret has named it. The session counts as in use until it is released. @throws 404; 429 when too
   * many callers hold it
   */
  reach(project: string | undefined, idOrName: string): Promise<Reached>
}

/** A running session that counts as in use, and stays awake, until it is released. */
export interface Reached {
  id: string
  endpoint: Endpoint
  release: () => void
  /** From now on it stays awake only while the connection is used, and for some time afterwards. It still counts as in use until it is released. */
  connected: () => Connection
}

export function makeBrowsers({
  db,
  fleet,
  endpoints,
  tokens,
  livePath,
  activity,
  uses,
  lookUp,
  profiles,
  scope,
  place,
  sessionProxies,
  maxBrowsers,
  log,
}: BrowsersSettings): Browsers {
  /** `known`: what these sessions show of their profiles, if that has been asked for already. */
  async function present(row: BrowserRow, origin: string, known?: Awaited<ReturnType<SessionProfiles['shown']>>): Promise<Browser> {
    const profile = row.profile_id === null ? undefined : (known ?? (await profiles.shown([row]))).get(row.profile_id)
    const ws = origin.replace(/^http/, 'ws')
    const token = await tokens.sign(row.id, new URL(origin).hostname)
    return {
      session_id: row.id,
      created_at: row.created_at!.toISOString(),
      cdp_ws_url: `${ws}${pathTo(PUBLIC_SOCKETS.cdp, { id: row.id })}?jwt=${token}`,
      webdriver_ws_url: `${ws}${pathTo(PUBLIC_SOCKETS.bidi, { id: row.id })}?jwt=${token}`,
      base_url: `${origin}${SESSION_PATH}/${row.id}`,
      browser_live_view_url: origin + livePath(row.id),
      ...options.shown(row.options, place),
      ...(profile && { profile: { ...profile, ...(row.profile_end && { save: row.profile_end }) }, profile_save_changes: row.profile_save }),
      timeout_seconds: row.timeout_seconds,
      tags: row.tags,
      usage: { uptime_ms: Math.max(0, (row.deleted_at ?? new Date()).getTime() - row.created_at!.getTime()) },
      ...(row.name !== null && { name: row.name }),
      ...(row.deleted_at && { deleted_at: row.deleted_at.toISOString() }),
    }
  }

  const presentAll = async (rows: readonly BrowserRow[], origin: string): Promise<Browser[]> => {
    const known = await profiles.shown(rows)
    return Promise.all(rows.map((row) => present(row, origin, known)))
  }

  async function find(project: string | undefined, idOrName: string, includeDeleted = false): Promise<BrowserRow> {
    const row = await findBrowser(db, { scope, project }, idOrName, includeDeleted)
    if (!row) throw fault.notFound('browser', idOrName)
    return row
  }

  const liveById = async (id: string): Promise<BrowserRow | undefined> => (isId(id) ? findBrowser(db, { scope, project: undefined }, id, false) : undefined)

  /** @throws 400 when an option is refused; 409 when it has changed. */
  const check = (refusal: Refusal | undefined): void => {
    if (refusal) throw refusal.code === 'stale_network' ? fault.staleNetwork(refusal.problem) : fault.field(refusal.field, refusal.problem)
  }

  /** @throws 429 when too many callers hold the session already. */
  const hold = (id: string): Pick<Reached, 'release' | 'connected'> => {
    if (activity.held(id) >= MAX_CALLS) throw fault.tooMany(`this browser has ${MAX_CALLS} calls and connections at once, its limit`, CALLS_RETRY_SECONDS)
    const leave = activity.hold(id)
    const rest = uses.hold(id)
    const release = () => {
      rest()
      leave()
    }
    const connected = () => {
      const connection = uses.connect(id)
      rest()
      return connection
    }
    return { release, connected }
  }

  const named = async <T>(name: string | null | undefined, work: Promise<T>): Promise<T> =>
    work.catch((error: unknown) => {
      throw isDuplicate(error, 'browsers_name') ? fault.conflict(`there is a live browser named "${name}" already`) : error
    })

  /** @throws fault.conflict when the agent is of an older version, and does not have one of the settings. */
  const assertFits = ({ id }: BrowserRow, wanted: Fit): void => {
    const endpoint = fleet.endpointOf(id)
    if (endpoint) for (const setting of Object.keys(wanted)) assertOffered(endpoint, fitting(setting))
  }

  const fit = async (row: BrowserRow, wanted: Fit, signal: AbortSignal, ms = FIT_MS): Promise<void> => {
    if (Object.keys(wanted).length === 0) return
    assertFits(row, wanted)
    const agent = endpoints.open(row.endpoint!, row.id)
    const limit = AbortSignal.any([signal, AbortSignal.timeout(ms)])
    const tell = (body: Fit) => call(agent, session.fitSession, { body }, { signal: limit })
    if (!wanted.proxy) return await tell(wanted)
    await sessionProxies.fitted(row, agent, (told) => tell({ ...wanted, ...told }), limit)
  }

  const at = (row: BrowserRow) => ({ id: row.id, endpoint: endpoints.open(row.endpoint!, row.id) })

  /** Fits a browser that has just become a session. Tells its agent the timeout, which applies when there is no service. */
  const fitNew = async (row: BrowserRow, wanted: Fit, ms: number, signal: AbortSignal): Promise<void> => {
    const timeout = { timeout_seconds: row.timeout_seconds }
    if (Object.keys(wanted).length > 0) return fit(row, { ...wanted, ...timeout }, signal, ms)
    // A caller that wants the browser as it is does not wait for this. If it fails, the browser keeps the timeout of an unclaimed one.
    void fit(row, timeout, AbortSignal.timeout(FIT_MS)).catch((err: unknown) => log.debug({ err, browser: row.id }, 'a session was not told its timeout'))
  }

  /** @throws 400 unless `invocationId` is a run of the project that has not ended. */
  const checkUnfinished = async (project: string, invocationId: string | undefined): Promise<void> => {
    if (invocationId !== undefined && !(await isUnfinished(db, project, invocationId)))
      throw fault.field('invocation_id', 'there is no such invocation, or it has ended')
  }

  const endAll = async (ids: readonly string[]): Promise<void> => void (await Promise.all(ids.map((id) => fleet.takeOut(id, 'deleted'))))

  /** A browser for a session; how it is, and whether it was ready before its caller asked. */
  async function obtain(ownership: Ownership, leaveSeat: () => void, signal: AbortSignal): Promise<{ row: BrowserRow; state: ReadyState; warm: boolean }> {
    const { id, row, wasReady: warm } = await fleet.obtain(ownership, leaveSeat, signal)
    return row
      ? { row, state: fleet.readyState(row), warm }
      : { row: await find(ownership.project, id), state: { viewport: ownership.options.viewport, fullscreen: false, stealth: false }, warm }
  }

  /** Does `work` with a seat for a session. @throws 429 when there is none; 404 when the project has been deleted */
  async function seated<T>(ownership: Ownership, work: (leaveSeat: () => void) => Promise<T>, signal: AbortSignal): Promise<T> {
    using opened = new DisposableStack()
    try {
      opened.defer(await fleet.enter(ownership, signal))
      const leaveSeat = await fleet.seat(maxBrowsers, signal)
      if (!leaveSeat) throw new NoSeat()
      opened.defer(leaveSeat)
      return await work(leaveSeat)
    } catch (error) {
      if (isProjectGone(error)) throw fault.projectNotFound(ownership.project)
      if (!(error instanceof NoSeat)) throw error
      const { projectLimit: limit } = error
      const [where, whose] = limit === undefined ? ['this machine', 'its limit (COB_MAX_BROWSERS)'] : ['this project', 'its limit (max_concurrent_sessions)']
      throw fault.tooMany(`${where} runs ${limit ?? maxBrowsers} browsers already, ${whose}`, FULL_RETRY_SECONDS)
    }
  }

  /** Makes a session. Undefined when it had a warm browser that did not answer within `warmFitMs`; that one is ended then. */
  async function begin(
    ownership: Ownership,
    wanted: CreateBrowser,
    brought: Brought | undefined,
    profile: Chosen | undefined,
    warmFitMs: number,
    signal: AbortSignal,
  ): Promise<BrowserRow | undefined> {
    const { row, state, warm } = await seated(ownership, (leaveSeat) => named(ownership.name, obtain(ownership, leaveSeat, signal)), signal)
    fleet.belongs(row)
    const { release } = hold(row.id)
    try {
      const { proxy, stealth, ...rest } = options.fit(wanted, state)
      // Before a page of the profile is opened.
      if (proxy || stealth) await fit(row, { ...(proxy && { proxy }), ...(stealth && { stealth }) }, signal, warm ? warmFitMs : FIT_MS)
      // A profile comes with a window of its own, which the rest is about; extensions are loaded into it.
      const loaded = profile && (await profiles.load(at(row), profile, { keepTabs: wanted.start_url === undefined, isUpdate: false }, signal))
      const inTime = AbortSignal.any([signal, AbortSignal.timeout(BRING_MS)])
      const also = await brought?.bring(at(row).endpoint, inTime)
      await fitNew(row, { ...rest, ...also }, warm && !brought ? warmFitMs : FIT_MS, signal)
      // Nobody would ever end a session whose caller left before it got the answer.
      signal.throwIfAborted()
      // The run may have ended before this browser belonged to it. Then its end has not ended this browser.
      await checkUnfinished(ownership.project, ownership.invocationId)
      return { ...row, ...loaded }
    } catch (error) {
      await fleet.takeOut(row.id, 'abandoned')
      if (signal.aborted || error instanceof Fault || error instanceof Unavailable) throw error
      // The end of its run may end a browser during this call.
      await checkUnfinished(ownership.project, ownership.invocationId)
      // Something that the caller gave, and that only the browser can judge.
      if (error instanceof CallFailed && error.status === 400) throw fault.field('', error.reason)
      log.warn({ err: error, browser: row.id, warm }, 'a browser did not accept its settings')
      // Only one that hangs: settings that a browser refuses would be refused by the next one as well.
      if (warm && (error as Error).name === 'TimeoutError') return undefined
      throw fault.unavailable('the browser did not accept its settings', error)
    } finally {
      release()
    }
  }

  const turns = new Mutexes()
  const change = makeChange({
    db,
    options,
    profiles,
    find,
    named,
    check,
    assertFits,
    fit,
    at,
    restoreProxy: (row) => sessionProxies.restore(row.id, at(row).endpoint),
  })

  return {
    async create({ project }, given, origin, signal) {
      check(options.refuseCreate(given, place))
      await checkUnfinished(project, given.invocation_id)
      const { options: wanted, brought } = await lookUp(project, given)
      const profile = await profiles.choose(project, withSave(wanted.profile, wanted.profile_save_changes), signal)
      const stored = options.stored(wanted)
      const ownership = {
        project,
        name: wanted.name,
        tags: wanted.tags ?? {},
        options: { ...stored, maxScreen: maxScreenFor(stored.viewport) },
        timeoutSeconds: wanted.timeout_seconds,
        invocationId: wanted.invocation_id,
      }
      // A warm browser may have started to hang while it was idle. Then replace it with another one, once.
      const begun = (fitMs: number) => begin(ownership, wanted, brought, profile, fitMs, signal)
      const row = (await begun(WARM_FIT_MS)) ?? (await begun(FIT_MS))
      if (!row) throw fault.unavailable('the browser did not accept its settings')
      return present(row, origin)
    },
    async list({ project }, filter, origin) {
      if (filter.region !== undefined && filter.region !== place.region) return { items: [], nextOffset: undefined }
      const rows = await listBrowsers(db, { scope, project }, filter)
      return {
        items: await presentAll(rows.slice(0, filter.limit), origin),
        nextOffset: rows.length > filter.limit ? filter.offset + filter.limit : undefined,
      }
    },
    get: async ({ project }, idOrName, includeDeleted, origin) => present(await find(project, idOrName, includeDeleted), origin),
    async update({ project }, idOrName, given, origin, signal) {
      const { id } = await find(project, idOrName)
      const { options: changes } = await lookUp(project, given)
      const work = async () => {
        const rest = uses.hold(id)
        return change(project, id, idOrName, changes, signal)
          .finally(rest)
          .then((row) => present(row, origin))
      }
      // Two viewports at once could end as one in the table and the other on the screen.
      return changes.profile || options.isStored(changes) ? turns.run(id, work, signal) : work()
    },
    async delete({ project }, idOrName, isRemoved) {
      const row = await find(project, idOrName, isRemoved)
      if (row.state === 'deleted') throw fault.notFound('browser', idOrName)
      const isEnding = isRemoved ? await fleet.end(row.id, 'deleted') : await fleet.takeOut(row.id, 'deleted')
      // Its end may have finished in the meantime.
      if (!isEnding && row.deleted_at === null) throw fault.notFound('browser', idOrName)
    },
    ofInvocation: async (invocationId, origin) => presentAll(await liveOfInvocation(db, scope, invocationId), origin),
    endOfInvocation: async (invocationId) => endAll(await liveIdsOfInvocation(db, scope, invocationId)),
    endLeftByInvocations: async () => endAll(await leftByInvocations(db, scope)),
    // No database query for running sessions: every call with a token comes here.
    async projectOf(id) {
      const known = fleet.endpointOf(id) && fleet.projectOf(id)
      if (known !== undefined) return known
      const row = await liveById(id)
      if (row) fleet.belongs(row)
      return row?.project_id ?? undefined
    },
    nameOf: async (id) => (await liveById(id))?.name ?? undefined,
    async reach(project, id) {
      // Every call to a session comes here. A query would take half of the time of a click.
      const known = fleet.endpointOf(id)
      if (known && (project === undefined || fleet.projectOf(id) === project)) return { id, endpoint: known, ...hold(id) }
      const row = await find(project, id)
      fleet.belongs(row)
      if (row.state !== 'running' || !row.endpoint) throw fault.notFound('browser', id)
      return { id: row.id, endpoint: endpoints.open(row.endpoint, row.id), ...hold(row.id) }
    },
  }
}

/** A screen that is larger than the usual one in either direction needs an X server of its own size; RandR cannot grow a screen. */
const maxScreenFor = ({ width, height }: Viewport): Booted['maxScreen'] => ({
  width: Math.max(width, USUAL_MAX_SCREEN.width),
  height: Math.max(height, USUAL_MAX_SCREEN.height),
})
