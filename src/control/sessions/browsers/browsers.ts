// The rules of sessions: create, find, change, end, reach.
import type { Fit } from '../../../agent/session/contract.ts'
import { isId } from '../../../base/ids.ts'
import type { Log } from '../../../base/log.ts'
import type { Endpoint } from '../../../http/endpoint.ts'
import { fault } from '../../../http/fault.ts'
import { calledBy, includes, roleOf, sessionOf, type Called, type AcquiredSession, type Page, type Principal } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import { pageOf } from '../../../store/lists.ts'
import type { Activity } from './activity.ts'
import type { Browser, CreateBrowser, UpdateBrowser } from './contract.ts'
import { browserRules as options, FIT_MS, refuseCreate, storedOptions, WARM_FIT_MS, type Fitter } from './fitter.ts'
import type { EndReason } from './end-step.ts'
import type { Fleet } from './fleet.ts'
import { BootFailed } from './fleet/boots.ts'
import { reasonOf } from './fleet/endings.ts'
import type { ReadyState } from './fleet/kinds.ts'
import { findBrowser, isUnfinished, leftByInvocations, listBrowsers, liveOfInvocation, type BrowserRow, type ListFilter, type Ownership } from './rows.ts'
import type { Place, Refusal, Region } from './options/option/contract.ts'
import type { Brought, LookUp } from './options/look-up.ts'
import { makeChange } from './change.ts'
import { handOver, unsettled } from './hand-over.ts'
import type { OpenCalls } from './open-calls.ts'
import type { Present } from './present.ts'
import { named, seated } from './refused.ts'
import { withSave, type Chosen, type SessionProfiles } from './session-profiles.ts'
import type { SessionProxies } from './session-proxies.ts'
import type { Connection, Uses } from './standby.ts'
import { Thumbnails, type Thumbnail } from './thumbnails.ts'

/** Most calls and WebSockets of one session at the same time. Each uses file descriptors of the service, which other sessions need, too. */
const MAX_CALLS = 256
const CALLS_RETRY_SECONDS = 1

interface BrowsersSettings {
  db: Db
  fleet: Fleet
  fitter: Fitter
  present: Present
  calls: OpenCalls
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
  /** `authFlowId`: the login or health check that the browser is for. */
  create(by: Pick<Principal, 'project'>, wanted: CreateBrowser, origin: string, signal: AbortSignal, authFlowId?: string): Promise<Browser>
  list(by: Principal, filter: ListFilter & { region: Region | undefined }, origin: string): Promise<Page<Browser>>
  get(by: Principal, called: Called, includeDeleted: boolean, origin: string): Promise<Browser>
  update(by: Principal, idOrName: string, changes: UpdateBrowser, origin: string, signal: AbortSignal): Promise<Browser>
  /**
   * Ends a session. Resolves when callers cannot reach it any more; with `isRemoved`, when nothing is left of it or the first attempt to end it has failed. A
   * session that is already ending is waited for.
   */
  delete(by: Pick<Principal, 'project'>, idOrName: string, isRemoved: boolean): Promise<void>
  /** The live sessions of an app's run, newest first. All are of the run's project. */
  ofInvocation(by: Principal, invocationId: string, origin: string): Promise<Browser[]>
  /** Ends the sessions of a run. */
  endOfInvocation(invocationId: string): Promise<void>
  /** Ends the sessions of all runs that have ended. */
  endLeftByInvocations(): Promise<void>
  /** The project of a live session, for the holder of its token; undefined when it has ended. */
  projectOf(id: string): Promise<string | undefined>
  /** The name of a live session, for the holder of its token. */
  nameOf(id: string): Promise<string | undefined>
  /** The number of the acquisition that a live session of a pool has now; 0 for a session that belongs to no pool. */
  leaseOf(id: string): Promise<number | undefined>
  /** Why this caller's session has ended, by its row; undefined while it runs. */
  endOf(session: AcquiredSession): Promise<EndReason | undefined>
  /**
   * The agent of a running session of a project, or of any project when the caller has shown a secret of the session. The session counts as in use until the
   * result is released. @throws 404, also when another caller of its pool has the browser now; 429 when too many callers use it; 409 for the browser of a
   * login, unless `how` says that this call shows nothing that is typed
   */
  reach(project: string | undefined, called: Called, how?: { isForLogins: boolean }): Promise<Reached>
  /**
   * A small picture of a running session; undefined when there is none. Asking neither keeps the session awake nor wakes it. @throws 404, 409 for the browser
   * of a login
   */
  thumbnail(by: Principal, idOrName: string, signal: AbortSignal): Promise<Thumbnail | undefined>
}

/** A caller who may only watch gets no token, and a live view without control. */
const accessOf = (by: Principal | undefined) => (by && !includes(roleOf(by), 'use') ? 'watch' : 'control')

/** What a person types into the browser of a login is secret, also for callers who could otherwise read the page by its tools. */
const closed = (id: string) => fault.conflict(`the browser "${id}" belongs to a login: its tools are closed; its live view shows it`)

/** A running session that counts as in use, and stays awake, until it is released. */
export interface Reached {
  id: string
  endpoint: Endpoint
  release: () => void
  /**
   * After this call, the session stays awake only while the connection is used, and for some time afterwards. It still counts as in use until it is released.
   */
  connected: () => Connection
  /** For a browser of a pool: aborts when it is given back. */
  ended?: AbortSignal | undefined
}

export function makeBrowsers({
  db,
  fleet,
  fitter,
  present,
  calls,
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
  const { at, fitNew } = fitter
  const thumbnails = new Thumbnails()

  const presentOne = async (row: BrowserRow, origin: string, by?: Principal): Promise<Browser> => (await present([row], origin, undefined, accessOf(by)))[0]!

  async function find(project: string | undefined, called: Called, includeDeleted = false): Promise<BrowserRow> {
    const { idOrName, lease } = calledBy(called)
    const row = await findBrowser(db, { scope, project }, idOrName, includeDeleted)
    // A browser that was given back to its pool belongs to no caller.
    if (!row || row.state === 'warm' || row.state === 'releasing') throw fault.notFound('browser', idOrName)
    if (lease !== undefined && row.lease !== lease) throw fault.notFound('browser', idOrName)
    return row
  }

  const liveById = async (id: string): Promise<BrowserRow | undefined> => (isId(id) ? findBrowser(db, { scope, project: undefined }, id, false) : undefined)

  /** Finds a live session and registers its project and acquisition, so that later calls need no query. */
  async function learn(id: string): Promise<BrowserRow | undefined> {
    const row = await liveById(id)
    if (row) fleet.registry.belongs(row)
    return row
  }

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

  /** @throws 400 when the named run does not belong to the project, or has ended. */
  const checkUnfinished = async (project: string, invocationId: string | undefined): Promise<void> => {
    if (invocationId !== undefined && !(await isUnfinished(db, project, invocationId)))
      throw fault.field('invocation_id', 'there is no such invocation, or it has ended')
  }

  /** A running session of the project, without a hold on it. @throws as {@link Browsers.reach} */
  async function locate(
    project: string | undefined,
    called: Called,
    isForLogins: boolean,
  ): Promise<AcquiredSession & { endpoint: Endpoint; isPooled: boolean }> {
    // Every call to a session comes here. A query would double the time of a click.
    const { idOrName: id, lease: wanted } = calledBy(called)
    const known = fleet.session(id)
    if (known?.project !== undefined && (project === undefined || known.project === project)) {
      if (!isForLogins && known.isClosed) throw closed(id)
      const { endpoint, lease, isPooled } = known
      if (lease !== undefined && (!isPooled || wanted === undefined || wanted === lease)) return { id, lease, endpoint, isPooled }
    }
    const row = await find(project, called)
    fleet.registry.belongs(row)
    if (!isForLogins && row.auth_flow_id !== null) throw closed(row.id)
    if (row.state !== 'running' || !row.endpoint) throw fault.notFound('browser', id)
    return { ...at(row), isPooled: row.pool_id !== null }
  }

  const endAll = async (ids: readonly string[]): Promise<void> => void (await Promise.all(ids.map((id) => fleet.takeOut(id, 'deleted'))))

  /** A browser for a session, its state, and whether it was ready before its caller asked. @throws 404 when the project was deleted; 409 when the name is taken; 429 without a free seat */
  async function obtain(ownership: Ownership, signal: AbortSignal): Promise<{ row: BrowserRow; state: ReadyState; warm: boolean }> {
    const obtained = seated(ownership.project, 1, maxBrowsers, fleet.obtain(ownership, signal))
    const { id, row, wasReady: warm } = await named(ownership.name, obtained)
    if (row) return { row, state: fleet.readyState(row), warm }
    const booted = await liveById(id)
    // It may have ended by itself since it came up.
    if (!booted) throw new BootFailed(new Error(`browser ${id} ended as soon as it had started`))
    return { row: booted, state: { viewport: ownership.options.viewport, fullscreen: false, stealth: false }, warm }
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
    const { row, state, warm } = await obtain(ownership, signal)
    const last = (rest: Fit, ms: number) => fitNew(row, rest, signal, ms)
    const configure = async () => {
      try {
        return { ...row, ...(await fitter.configure(row, { wanted, brought, profile, state }, last, signal, warm ? warmFitMs : FIT_MS)) }
      } finally {
        // When a run ends, it ends its browsers, once. A run that ended before this browser was in the list missed it, so this ends the browser. If the run has
        // already ended it, the caller gets the reason.
        await checkUnfinished(ownership.project, ownership.invocationId)
      }
    }
    // Replace only a browser that hangs. If a browser refuses settings, the next one would refuse them, too.
    const mayReplace = ({ name }: Error) => warm && name === 'TimeoutError'
    return handOver({ fleet, activity, uses, log }, { row, configure, mayReplace, field: '', signal })
  }

  const change = makeChange({
    db,
    options,
    profiles,
    find,
    check,
    fitter,
    restoreProxy: (row) => sessionProxies.restore(row.id, at(row).endpoint),
  })

  return {
    async create({ project }, given, origin, signal, authFlowId) {
      check(refuseCreate(given, place))
      await checkUnfinished(project, given.invocation_id)
      const { options: wanted, brought } = await lookUp(project, given)
      const profile = await profiles.choose(project, withSave(wanted.profile, wanted.profile_save_changes), signal)
      const ownership = {
        project,
        name: wanted.name,
        tags: wanted.tags ?? {},
        options: storedOptions(wanted, place),
        timeoutSeconds: wanted.timeout_seconds,
        invocationId: wanted.invocation_id,
        authFlowId,
      }
      // A warm browser may have started to hang while it was idle. Then replace it with another one, once.
      const begun = (fitMs: number) => begin(ownership, wanted, brought, profile, fitMs, signal)
      const row = (await begun(WARM_FIT_MS)) ?? (await begun(FIT_MS))
      if (!row) throw unsettled()
      return presentOne(row, origin)
    },
    async list(by, filter, origin) {
      const { project } = by
      if (filter.region !== undefined && filter.region !== place.region) return { items: [], nextOffset: undefined }
      const rows = await listBrowsers(db, { scope, project }, filter)
      const { items, nextOffset } = pageOf(rows, filter, (row) => row)
      return { items: await present(items, origin, undefined, accessOf(by)), nextOffset }
    },
    get: async (by, called, includeDeleted, origin) => presentOne(await find(by.project, called, includeDeleted), origin, by),
    async update({ project }, idOrName, given, origin, signal) {
      const { id, lease, pool_id: pool, auth_flow_id: flow } = await find(project, idOrName)
      if (flow !== null) throw closed(id)
      const inTime = pool === null ? signal : AbortSignal.any([signal, calls.signalOf({ id, lease })])
      const { options: changes } = await lookUp(project, given)
      // An update that has begun is finished, even if the browser is given back to its pool meanwhile. The release waits for it, because a half-done update leaves an unknown state.
      const changed = async () => {
        const rest = uses.hold(id)
        return change(project, { id, lease }, idOrName, changes, signal, inTime).finally(rest)
      }
      return calls.updating(id, async () => presentOne(await changed(), origin))
    },
    async delete({ project }, idOrName, isRemoved) {
      const row = await find(project, idOrName, isRemoved)
      if (row.state === 'deleted') throw fault.notFound('browser', idOrName)
      const isEnding = isRemoved ? await fleet.end(row.id, 'deleted') : await fleet.takeOut(row.id, 'deleted')
      // The session may have ended in the meantime.
      if (!isEnding && row.deleted_at === null) throw fault.notFound('browser', idOrName)
    },
    ofInvocation: async (by, invocationId, origin) => present(await liveOfInvocation(db, scope, invocationId), origin, undefined, accessOf(by)),
    endOfInvocation: async (invocationId) => endAll((await liveOfInvocation(db, scope, invocationId)).map(({ id }) => id)),
    endLeftByInvocations: async () => endAll(await leftByInvocations(db, scope)),
    // No database query for running sessions: every call with a token comes here.
    async projectOf(id) {
      const known = fleet.session(id)?.project
      if (known !== undefined) return known
      return (await learn(id))?.project_id ?? undefined
    },
    nameOf: async (id) => (await liveById(id))?.name ?? undefined,
    async leaseOf(id) {
      const known = fleet.session(id)?.lease
      if (known !== undefined) return known
      return (await learn(id))?.lease
    },
    async endOf({ id, lease }) {
      const row = await findBrowser(db, { scope, project: undefined }, id, true)
      if (!row) return 'deleted'
      if (row.lease !== lease || row.state === 'warm' || row.state === 'releasing') return 'released'
      return row.state === 'running' ? undefined : reasonOf(row, 'crashed')
    },
    async reach(project, called, { isForLogins } = { isForLogins: false }) {
      const { isPooled, ...found } = await locate(project, called, isForLogins)
      return { ...found, ...hold(found.id), ended: isPooled ? calls.signalOf(found) : undefined }
    },
    async thumbnail({ project, by }, idOrName, signal) {
      const { isPooled: _, ...found } = await locate(project, sessionOf({ by, project }, idOrName), false)
      return thumbnails.read({ ...found, isAsleep: uses.isAsleep(found.id) }, signal)
    },
  }
}
