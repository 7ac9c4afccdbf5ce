// Changes of flows: starts, claims by replicas, and data from workers and callers. The end: flow-ends.ts; the engine that works on flows: engine/.
import { sql, type RawBuilder, type SqlBool } from 'kysely'
import { fault } from '../../../http/fault.ts'
import { isDuplicate, type Db } from '../../../store/db.ts'
import type { EventNotifier } from '../../../store/events.ts'
import type { Leases } from '../../../store/leases.ts'
import { NoSeat, SharedSeats } from '../../../store/seats.ts'
import type { FlowStep } from './contract.ts'
import type { Answer, Pause } from './flow.ts'
import { endFlow, FlowEnds, type FlowEnd, type FlowEndsSettings } from './flow-ends.ts'
import {
  announceFlow,
  changeFlow,
  claimFlow,
  countLogins,
  endsAt,
  flowById,
  insertFlow,
  isInTime,
  liveFlow,
  overdueFlows,
  releaseFlows,
  takeAnswer,
  type Asked,
  type FlowRow,
  type FlowType,
} from './flow-rows.ts'
import { connectionById, lockConnection, type ConnectionRow } from './rows.ts'

export interface FlowsSettings extends FlowEndsSettings {
  leases: Pick<Leases, 'replica' | 'isDead'>
  notifier: EventNotifier
  /** The code that opens the page of a flow. */
  codeOf: (flowId: string) => string
  /** Most logins in progress. */
  maxPending: number
}

const ANY = sql<SqlBool>`true`

/**
 * A change is a compare-and-set. Each `boolean` tells whether it was made: it is false when the flow has ended, or another replica works on it now; then the
 * worker stops. Followers at every replica are notified of each change. A new step or question is also refused until the answer to the last question was taken.
 */
export class Flows {
  readonly #settings: FlowsSettings
  readonly #ends: FlowEnds
  readonly #seats: SharedSeats
  /** Condition: this replica works on the flow. */
  readonly #mine: RawBuilder<SqlBool>
  /** Condition: also, no answer waits in it. Callers were told that their answer is accepted. */
  readonly #isTaken: RawBuilder<SqlBool>

  constructor(settings: FlowsSettings) {
    const { db, scope, leases, maxPending } = settings
    this.#settings = settings
    this.#ends = new FlowEnds(settings)
    this.#seats = new SharedSeats(db, {
      name: `logins of ${scope}`,
      count: async (tx) => ({ of: maxPending, free: maxPending - (await countLogins(tx, scope)) }),
    })
    this.#mine = sql<SqlBool>`replica = ${leases.replica}`
    this.#isTaken = sql<SqlBool>`${this.#mine} and answer is null`
  }

  /**
   * Starts a flow, and makes the code that opens its page. A login ends a running health check. @throws 404; 409 flow_in_progress, too_many_pending_sessions
   */
  async begin(connection: ConnectionRow, type: FlowType, asked: Asked): Promise<{ flow: FlowRow; code: string }> {
    const { db, scope, codeOf, maxPending } = this.#settings
    const take = async (tx: Db) => {
      // The end of a flow takes the same lock. This waits for a deletion of the connection that is under way.
      if (!(await lockConnection(tx, connection.id))) throw fault.notFound('auth connection', connection.id)
      await this.#makeWay(tx, connection.id, type)
      return insertFlow(tx, { connection, scope, type, asked, ...(type !== 'health_check' && { codeOf }) })
    }
    try {
      const flow = type === 'health_check' ? await db.transaction().execute(take) : await this.#seats.take(undefined, take)
      return { flow, code: codeOf(flow.id) }
    } catch (error) {
      if (isDuplicate(error, 'auth_flows_live')) throw fault.flowInProgress()
      if (error instanceof NoSeat)
        throw fault.tooManyPending(`${maxPending} logins are in progress, the limit of this service (COB_MAX_LOGINS); try again when one has ended`)
      throw error
    }
  }

  /** Ends an older flow of the connection before a new one starts: a flow whose time is over, and for a login also a health check. */
  async #makeWay(tx: Db, connection: string, type: FlowType): Promise<void> {
    const { now = Date.now } = this.#settings
    const live = await liveFlow(tx, connection)
    if (!live) return
    if (endsAt(live) <= now()) await endFlow(tx, live.id, { state: 'EXPIRED', errorMessage: 'the time for this login is over' }, ANY)
    else if (live.type === 'health_check' && type !== 'health_check')
      await endFlow(tx, live.id, { state: 'CANCELED', errorMessage: 'a login was started' }, ANY)
    else return
    await announceFlow(tx, live.id)
  }

  /** Ends the flow of a connection, for a caller. Its worker is notified, and ends its browser. */
  async cancel(connectionId: string, why: string): Promise<FlowRow | undefined> {
    const { db } = this.#settings
    const live = await liveFlow(db, connectionId)
    if (!live || !(await this.#ends.finish(live.id, { state: 'CANCELED', errorMessage: why }, ANY))) return undefined
    await announceFlow(db, live.id)
    return live
  }

  /** Ends the flows of all replicas whose time is over. A verified login gets more time for its save. @returns their number */
  async expireDue(): Promise<number> {
    const { db, scope } = this.#settings
    let ended = 0
    for (const { id, late } of await overdueFlows(db, scope)) {
      const errorMessage = late ? 'the time for this login is over' : 'nobody has answered in time'
      const still = late ? sql<SqlBool>`not ${isInTime()}` : sql<SqlBool>`answer is null and input_until <= now()`
      if (!(await this.#ends.finish(id, { state: 'EXPIRED', errorMessage }, still))) continue
      ended++
      await announceFlow(db, id)
    }
    return ended
  }

  /** Ends a flow of this replica. Removes its answer and typed values, and updates its connection in the same transaction. */
  finish(id: string, end: FlowEnd): Promise<boolean> {
    return this.#ends.finish(id, end, this.#mine)
  }

  /** Claims the oldest flow without a living worker that waits for no other login of its profile. */
  claimNext(): Promise<FlowRow | undefined> {
    const { db, scope, leases } = this.#settings
    return claimFlow(db, scope, leases)
  }

  /** Releases this replica's claims, except flows that it still works on. */
  async giveBack(working: readonly string[]): Promise<void> {
    const { db, scope } = this.#settings
    for (const id of await releaseFlows(db, scope, this.#mine, working)) await announceFlow(db, id)
  }

  /** Calls back for each flow, of any replica, that is new, was released, or was ended by others than its worker. @returns a function that stops this */
  onNews(onNotice: () => void): () => void {
    return this.#settings.notifier.on('auth_flow', onNotice)
  }

  /** Subscribes: resolves when the flow has changed, at the latest after 5 s; rejects when `signal` aborts. Subscribe first, then read. */
  next(id: string, signal: AbortSignal): { promise: Promise<void>; leave: () => void } {
    return this.#settings.notifier.next(id, signal)
  }

  get(id: string): Promise<FlowRow | undefined> {
    return flowById(this.#settings.db, id)
  }

  /** The connection with the whole address after its last login, for the engine. */
  async connectionOf({ connection_id: id }: Pick<FlowRow, 'connection_id'>): Promise<ConnectionRow | undefined> {
    const row = await connectionById(this.#settings.db, id)
    if (!row?.landing) return row
    try {
      return { ...row, post_login_url: this.#settings.sealer.open(row.landing, id) }
    } catch {
      // The key is missing. The shown address, without values, may be enough.
      return row
    }
  }

  /** Stores the engine's memory, which never contains values. */
  remember(id: string, memory: object): Promise<boolean> {
    return this.#change(id, { memory: JSON.stringify(memory) })
  }

  /** Asks a person. `websiteError`: the site's error message after the last attempt; null: none. */
  ask(id: string, pause: Pause, step: 'AWAITING_INPUT' | 'AWAITING_EXTERNAL_ACTION', inputUntil: Date, websiteError: string | null = null): Promise<boolean> {
    return this.#change(id, { pause: JSON.stringify(pause), step, input_until: inputUntil, website_error: websiteError }, this.#isTaken)
  }

  /** For callers: stores an answer to the question, if the question is still the present one and has no other answer. */
  answer(id: string, answer: Answer): Promise<boolean> {
    return this.#change(
      id,
      { answer: this.#settings.sealer.seal(JSON.stringify(answer), id), step: 'SUBMITTING' satisfies FlowStep },
      sql`answer is null and pause->>'interactionId' = ${answer.interactionId} and expires_at > now() and (input_until is null or input_until > now())`,
    )
  }

  /** Takes a person's answer; undefined while there is none. The flow is then SUBMITTING, without a question. */
  async takeAnswer(id: string): Promise<Answer | undefined> {
    const { db, sealer } = this.#settings
    const answer = await takeAnswer(db, id, this.#mine)
    return answer && (JSON.parse(sealer.open(answer, id)) as Answer)
  }

  /** Removes the question: the worker sends a form by itself, or a person has acted elsewhere. */
  submitting(id: string): Promise<boolean> {
    return this.#change(id, { step: 'SUBMITTING' satisfies FlowStep, pause: null, input_until: null, website_error: null }, this.#isTaken)
  }

  /** The worker reads a page again. */
  discovering(id: string): Promise<boolean> {
    return this.#change(id, { step: 'DISCOVERING' satisfies FlowStep, pause: null, input_until: null }, this.#isTaken)
  }

  /** Stores data of the flow; undefined values stay unchanged. */
  bind(id: string, { browserId, replayId, telemetryCaptured }: { browserId?: string; replayId?: string; telemetryCaptured?: boolean }): Promise<boolean> {
    return this.#change(id, {
      ...(browserId !== undefined && { browser_id: browserId }),
      ...(replayId !== undefined && { replay_id: replayId }),
      ...(telemetryCaptured !== undefined && { telemetry_captured: telemetryCaptured }),
    })
  }

  /** Stores a person's values, encrypted, until the flow ends. */
  keepTyped(id: string, values: Record<string, string>): Promise<boolean> {
    return this.#change(id, { typed: this.#settings.sealer.seal(JSON.stringify(values), id) })
  }

  async openTyped(id: string): Promise<Record<string, string>> {
    const { typed } = (await this.get(id)) ?? { typed: null }
    return typed === null ? {} : (JSON.parse(this.#settings.sealer.open(typed, id)) as Record<string, string>)
  }

  /** Stores the whole address after the login, encrypted, because it contains a value. The connection gets it if the flow succeeds. */
  keepAddress(id: string, url: string): Promise<boolean> {
    return this.#change(id, { landing: this.#settings.sealer.seal(url, id) })
  }

  #change(id: string, columns: Record<string, unknown>, only = this.#mine): Promise<boolean> {
    return changeFlow(this.#settings.db, id, columns, only)
  }
}
