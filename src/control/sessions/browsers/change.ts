// Changes a running session: stores the options of an update, and fits the browser to them one after the other.
import { Mutexes } from '../../../base/mutex.ts'
import { Fault, fault } from '../../../http/fault.ts'
import type { Called, AcquiredSession } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import { refuseStart } from '../network/contract.ts'
import type { UpdateBrowser } from './contract.ts'
import type { browserRules, Fitter } from './fitter.ts'
import type { Refusal } from './options/option/contract.ts'
import { takeBackOptions, updateRunning, type BrowserOptions, type BrowserRow } from './rows.ts'
import { named } from './refused.ts'
import { withSave, type SessionProfiles } from './session-profiles.ts'

/** Attempts to store a change while other replicas change the same row. */
const STORE_TRIES = 5

interface ChangeSettings {
  db: Db
  options: typeof browserRules
  profiles: SessionProfiles
  find: (project: string, called: Called) => Promise<BrowserRow>
  /** @throws 400; 409 */
  check: (refusal: Refusal | undefined) => void
  fitter: Fitter
  /** Gives the browser the proxy that its row names. Does not wait. */
  restoreProxy: (row: BrowserRow) => void
}

/**
 * `called` is the id or name that the caller used; the session must still be this caller's. Changes that need the browser run one at a time for each session;
 * `inTime` limits the wait for that turn.
 */
export type ChangeSession = (
  project: string,
  session: AcquiredSession,
  called: string,
  changes: UpdateBrowser,
  signal: AbortSignal,
  inTime: AbortSignal,
) => Promise<BrowserRow>

export function makeChange({ db, options, profiles, find, check, fitter, restoreProxy }: ChangeSettings): ChangeSession {
  const { at, assertFits, fit, allow } = fitter
  const turns = new Mutexes()

  /** The profile part of an update. Checks the profile, waits until no ended session saves into it, and returns the work that loads it. */
  async function attaching(
    row: BrowserRow,
    { profile: given, profile_save_changes: save, start_url: url }: UpdateBrowser,
    called: string,
    signal: AbortSignal,
  ) {
    if (!given && save === undefined) return async () => ({})
    if (row.state !== 'running') throw fault.notFound('browser', called)
    if (!given) return () => profiles.changeSave(at(row), save!)
    if (row.profile_id !== null) throw fault.conflict('this session has a profile already; create another session for another profile')
    const chosen = (await profiles.choose(row.project_id!, withSave(given, save), signal))!
    return () => profiles.load(at(row), chosen, { keepTabs: !url, isUpdate: true }, signal)
  }

  type Parts = ReturnType<typeof browserRules.changes>
  /** The options of a row after these parts have taken effect. */
  const after = (before: BrowserRow, parts: Parts) => Object.assign({}, before.options, ...parts.map(({ stored }) => stored)) as BrowserOptions

  /** The changes that an update makes to a row. @throws a Fault when it may not */
  function partsOf(before: BrowserRow, changes: UpdateBrowser): Parts {
    check(options.refuseUpdate(changes, before.options))
    const parts = options.changes(changes, before.options)
    const problem = refuseStart(after(before, parts).network, changes.start_url)
    if (problem !== undefined) throw fault.field('start_url', problem)
    if (before.state === 'running') for (const part of parts) assertFits(before, part.fit)
    return parts
  }

  /** Stores an update whose parts were computed from `first`, also while another replica stores one. */
  async function store(
    first: BrowserRow,
    computed: Parts,
    changes: UpdateBrowser,
    called: string,
  ): Promise<{ before: BrowserRow; row: BrowserRow; parts: Parts }> {
    let [before, parts] = [first, computed]
    for (let left = STORE_TRIES; left > 0; left--) {
      const row = await named(
        changes.name,
        updateRunning(db, before, {
          ...(changes.name !== undefined && { name: changes.name || null }),
          ...(changes.tags !== undefined && { tags: changes.tags ?? {} }),
          ...(parts.some(({ stored }) => stored) && { options: after(before, parts), was: before.options }),
        }),
      )
      if (row) return { before, row, parts }
      before = await find(before.project_id!, { id: before.id, lease: before.lease })
      if (before.state !== 'running') throw fault.notFound('browser', called)
      parts = partsOf(before, changes)
    }
    throw fault.conflict('this session is being changed by others at the same time')
  }

  /** Stores a change of the allowed hosts, and has it take effect. */
  async function changeHosts(found: BrowserRow, network: UpdateBrowser['network'], called: string): Promise<BrowserRow> {
    const { row } = await store(found, partsOf(found, { network }), { network }, called)
    try {
      await allow(row)
      return row
    } catch (error) {
      // The stored value stays: it takes effect when the session's links are made again.
      restoreProxy(row)
      throw fault.unavailable('network.allowed_hosts is stored, and takes effect when the session can be reached again; send it again to wait for that', error)
    }
  }

  async function changeRest(found: BrowserRow, changes: UpdateBrowser, called: string, signal: AbortSignal): Promise<BrowserRow> {
    const computed = partsOf(found, changes)
    const attach = await attaching(found, changes, called, signal)
    const { before, row, parts } = await store(found, computed, changes, called)
    let profile: Awaited<ReturnType<typeof attach>> | undefined
    for (const [place, { name, fit: wanted }] of parts.entries()) {
      // Load the profile after the proxy, because its pages are opened through that, and before the start page, which opens in its window.
      const work = async () => {
        if (name === 'start_url') profile ??= await attach()
        await fit(row, wanted, signal)
      }
      await work().catch(async (error: unknown) => {
        // Remove from the row the options that have not taken effect.
        const left = parts.slice(place).flatMap(({ stored }) => Object.keys(stored ?? {}) as (keyof BrowserOptions)[])
        const running = await takeBackOptions(db, row, left, before.options)
        if (running && wanted.proxy) restoreProxy(running)
        if (error instanceof Fault && error.code === 'bad_request') throw error
        throw signal.aborted ? error : running ? fault.unavailable(`the browser did not accept the ${name}`, error) : fault.notFound('browser', called)
      })
    }
    profile ??= await attach()
    return { ...row, ...profile }
  }

  return async (project, session, called, changes, signal, inTime) => {
    const found = await find(project, session)
    // Check the whole update first: a refused update stores nothing.
    partsOf(found, changes)
    const { network, ...rest } = changes
    // The hosts change first and without a turn: the other changes may have to wait for the browser.
    const row = network ? await changeHosts(found, network, called) : found
    if (!Object.values(rest).some((value) => value !== undefined)) return row
    const work = async () => changeRest(await find(project, session), rest, called, signal)
    // Without turns, of two concurrent viewports one could be in the table and the other on the screen.
    return rest.profile || options.isStored(rest) ? turns.run(session.id, work, inTime) : work()
  }
}
