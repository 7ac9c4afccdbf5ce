// The rules of runs: start, find, list, end, follow.
import { newId } from '../../../base/ids.ts'
import { serviceStops } from '../../../base/unavailable.ts'
import { within, WaitTimeout } from '../../../base/wait.ts'
import { hasMoreValues } from '../../../http/body.ts'
import { Fault, fault } from '../../../http/fault.ts'
import type { Page } from '../../../http/route.ts'
import { isProjectGone, type Db } from '../../../store/db.ts'
import { pageOf } from '../../../store/lists.ts'
import { NoSeat } from '../../../store/seats.ts'
import type { EventNotifier } from '../../../store/events.ts'
import type { AppEvent } from '../apps/app-events.ts'
import { follow } from '../apps/follow.ts'
import { parseSince } from '../apps/since.ts'
import { MAX_PAYLOAD_BYTES, SYNC_LIMIT_SECONDS, type CreateInvocation, type Invocation, type Started } from './contract.ts'
import { invocationLifecycle, type EndState, type InvocationState } from './lifecycle.ts'
import { Refusals, REPEAT_SECONDS, requestHash } from './repeats.ts'
import {
  findByPrefix,
  findInvocation,
  findRepeated,
  insertQueued,
  listInvocations,
  versionsOf,
  type InvocationRow,
  type ListFilter,
  type NewInvocation,
  type Outcome,
} from './rows.ts'
import type { Runs } from './runs.ts'

/** Retry-After when the limit of runs is reached: a run may end at any moment. */
const FULL_RETRY_SECONDS = 1
/** Shortest prefix of an id: a shorter text is more likely a mistake. */
const MIN_PREFIX = 4
/** How long a caller that ends a run waits until its sandbox and browsers are removed. */
const REMOVED_MS = 20_000

interface InvocationsSettings {
  db: Db
  notifier: EventNotifier
  scope: string
  runs: Runs
  maxInvocations: number
  syncLimitSeconds?: number
}

/** The caller, and whether this is a retry. */
export interface Asking {
  /** The key's id. */
  caller: string
  project: string
  isRepeated: boolean
  signal: AbortSignal
}

type FollowedEvent =
  | { event: 'invocation_state'; invocation: Invocation; timestamp: string }
  | { event: 'log'; message: string; timestamp: string }
  | { event: 'sse_heartbeat'; timestamp: string }

export class Invocations {
  readonly #settings: InvocationsSettings
  readonly #syncLimitSeconds: number
  readonly #refusals = new Refusals()
  /** Runs whose result callers wait for, and the number of these callers. */
  readonly #awaited = new Map<string, number>()

  constructor(settings: InvocationsSettings) {
    this.#settings = settings
    this.#syncLimitSeconds = settings.syncLimitSeconds ?? SYNC_LIMIT_SECONDS
  }

  /** Starts a run. For a synchronous run, resolves with its end. @throws 400, 404, 413, 429 */
  async create(wanted: CreateInvocation, asking: Asking): Promise<Started> {
    checkPayload(wanted.payload)
    const hash = requestHash(wanted)
    const { caller, signal } = asking
    const repeated = !wanted.isAsync && asking.isRepeated ? await this.#startedBy(caller, hash) : undefined
    const run = repeated ? { id: repeated.id, ended: this.#settings.runs.ended(repeated, signal) } : await this.#start(wanted, hash, asking)
    const { action_name } = wanted
    if (wanted.isAsync) return { id: run.id, action_name, status: 'queued' }
    // If the caller disconnects, its wait ends but not the run: clients that time out retry and want its result.
    const { state, output, reason } = await this.#resultOf(run.id, run.ended, signal)
    return { id: run.id, action_name, status: state, ...(output !== null && { output }), ...(reason !== null && { status_reason: reason }) }
  }

  /** Finds a run by its id or an unambiguous prefix. @throws 404; 400 when the prefix matches several */
  async find(project: string, idOrPrefix: string): Promise<InvocationRow> {
    const { db } = this.#settings
    const whole = await findInvocation(db, idOrPrefix)
    if (whole?.project_id === project) return whole
    const begun = idOrPrefix.length >= MIN_PREFIX && /^[a-z][a-z0-9]{0,22}$/.test(idOrPrefix) ? await findByPrefix(db, project, idOrPrefix) : []
    if (begun.length > 1) throw fault.field('id', `more than one invocation begins with "${idOrPrefix}"`)
    if (begun.length === 0) throw fault.notFound('invocation', idOrPrefix)
    return begun[0]!
  }

  async list(project: string, filter: ListFilter): Promise<Page<Invocation>> {
    return pageOf(await listInvocations(this.#settings.db, project, filter), filter, present)
  }

  /** Ends a run. A run that has ended is returned unchanged. */
  async end(project: string, idOrPrefix: string, state: EndState, output: string | undefined): Promise<Invocation> {
    if (output !== undefined) checkSize('output', output)
    const row = await this.find(project, idOrPrefix)
    if (invocationLifecycle.isTerminal(row.state)) return present(row)
    const reason = state === 'failed' ? 'it was stopped by a caller' : null
    const ended = this.#settings.runs.end(row.id, { state, output: output ?? null, reason })
    await within('a run to be removed', REMOVED_MS, ended).catch((error: unknown) => {
      if (!(error instanceof WaitTimeout)) throw error
    })
    return present(await this.find(project, row.id))
  }

  async follow(project: string, idOrPrefix: string, since: string | undefined, lastEventId: string | string[] | undefined, signal: AbortSignal) {
    const { db, notifier } = this.#settings
    const row = await this.find(project, idOrPrefix)
    const from = parseSince(since)
    const show = async ({ kind, line, state, at }: AppEvent): Promise<FollowedEvent | undefined> => {
      const timestamp = at.toISOString()
      if (kind === 'log') return { event: 'log', message: line!, timestamp }
      if (kind !== 'state') return undefined
      const now = await findInvocation(db, row.id)
      return now && { event: 'invocation_state', invocation: present(asOf(now, state as InvocationState)), timestamp }
    }
    return follow<FollowedEvent>({
      db,
      notifier,
      source: { invocation: row.id, deployment: row.deployment_id },
      since: from,
      lastEventId,
      signal,
      initial: { state: 'queued', at: row.started_at },
      isLast: (state) => invocationLifecycle.isTerminal(state as InvocationState),
      show,
    })
  }

  /** The run that the first attempt of a retried request has started; undefined when there is none. */
  async #startedBy(caller: string, hash: Buffer): Promise<InvocationRow | undefined> {
    const { db } = this.#settings
    const equal = await findRepeated(db, caller, hash, REPEAT_SECONDS)
    // An unfinished run without a waiting caller belongs to a client that gave up its first request, so the retry gets it. Do not take the retry for that of an
    // equal refused request: the action would run twice.
    const left = equal.find(({ id, finished_at }) => finished_at === null && !this.#awaited.has(id))
    if (!left && this.#refusals.take(caller, hash)) return undefined
    const found = left ?? equal[0]
    return found && findInvocation(db, found.id)
  }

  async #resultOf(id: string, ended: Promise<Outcome>, signal: AbortSignal): Promise<Outcome> {
    this.#awaited.set(id, (this.#awaited.get(id) ?? 0) + 1)
    try {
      return await within('the end of a run', this.#syncLimitSeconds * 1000 + REMOVED_MS, ended, signal)
    } finally {
      const left = (this.#awaited.get(id) ?? 1) - 1
      if (left > 0) this.#awaited.set(id, left)
      else this.#awaited.delete(id)
    }
  }

  async #start(wanted: CreateInvocation, hash: Buffer, { caller, project, signal }: Asking): Promise<{ id: string; ended: Promise<Outcome> }> {
    const { maxInvocations, runs } = this.#settings
    if (runs.isStopping) throw serviceStops()
    const full = (projectLimit?: number) => {
      this.#refusals.add(caller, hash)
      const whose = projectLimit === undefined ? 'the limit of this machine (COB_MAX_INVOCATIONS)' : 'the limit of this project (max_concurrent_invocations)'
      return fault.tooMany(`${projectLimit ?? maxInvocations} runs are under way already, ${whose}`, FULL_RETRY_SECONDS)
    }
    signal.throwIfAborted()
    const made = { ...wanted, id: newId(), project, timeoutSeconds: wanted.timeoutSeconds ?? this.#syncLimitSeconds, caller, requestHash: hash }
    try {
      const run = (await this.#begin(made)) ?? (await this.#missing(made)) ?? (await this.#begin(made))
      if (!run) throw fault.unavailable('the app cannot be run by this service at the moment')
      return run
    } catch (error) {
      if (isProjectGone(error)) throw fault.projectNotFound(project)
      throw error instanceof NoSeat ? full(error.projectLimit) : error
    }
  }

  /** Starts a run if there is a seat and its app exists. @throws NoSeat */
  async #begin(made: NewInvocation): Promise<{ id: string; ended: Promise<Outcome> } | undefined> {
    const { scope, runs } = this.#settings
    const { made: row, leave } = await runs.seats.take(made.project, (tx) => insertQueued(tx, scope, runs.replica, made))
    try {
      return row && runs.begin(row)
    } finally {
      leave()
    }
  }

  /** @throws 404 naming which of app, version and action is missing. Returns when all exist by now. */
  async #missing({ project, app_name, version, action_name }: NewInvocation): Promise<undefined> {
    const versions = await versionsOf(this.#settings.db, project, app_name)
    if (versions.length === 0) throw fault.notFound('app', app_name)
    const found = versions.find((other) => other.version === version)
    if (!found) throw fault.notFound(`version of the app ${JSON.stringify(app_name)} named`, version)
    if (!found.actions.some(({ name }) => name === action_name))
      throw fault.notFound(`action of the app ${JSON.stringify(app_name)} (version ${JSON.stringify(version)}) named`, action_name)
  }
}

/** The answer for a run. */
export function present(row: InvocationRow): Invocation {
  return {
    id: row.id,
    app_name: row.app_name,
    action_name: row.action_name,
    version: row.version,
    status: row.state,
    started_at: row.started_at.toISOString(),
    finished_at: row.finished_at?.toISOString() ?? null,
    ...(row.payload !== null && { payload: row.payload }),
    ...(row.output !== null && { output: row.output }),
    ...(row.status_reason !== null && { status_reason: row.status_reason }),
  }
}

/** The row in an earlier state. If the row is read late, the run may have ended meanwhile. */
const asOf = (row: InvocationRow, state: InvocationState): InvocationRow =>
  row.state === state ? row : { ...row, state, finished_at: null, output: null, status_reason: null }

/** Limit on the JSON values of a payload, which is parsed to check it. */
const MAX_PAYLOAD_VALUES = 1_000_000

function checkPayload(payload: string | null): void {
  if (payload === null) return
  checkSize('payload', payload)
  if (hasMoreValues(Buffer.from(payload), MAX_PAYLOAD_VALUES)) throw fault.field('payload', `has more than ${MAX_PAYLOAD_VALUES} values`)
  try {
    JSON.parse(payload)
  } catch (error) {
    throw fault.field('payload', `is not valid JSON (${(error as Error).message})`)
  }
}

function checkSize(field: string, text: string): void {
  if (Buffer.byteLength(text) > MAX_PAYLOAD_BYTES) throw new Fault('payload_too_large', `${field}: is larger than ${MAX_PAYLOAD_BYTES} bytes`)
}
