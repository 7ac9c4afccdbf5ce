// Flows: every change of one is a compare-and-set, heard at once by all who follow it, at every replica. What a flow does is the engine's part (engine/); what callers may ask of it: connections.ts.
import { createHash } from 'node:crypto'
import { sql, type RawBuilder, type SqlBool } from 'kysely'
import { newId } from '../../../base/ids.ts'
import type { Sealer } from '../../../base/sealed.ts'
import { fault } from '../../../http/fault.ts'
import { isDuplicate, type Db } from '../../../store/db.ts'
import { announceEvents, announceNotice, type EventNotifier } from '../../../store/events.ts'
import type { Leases } from '../../../store/leases.ts'
import { NoSeat, SharedSeats } from '../../../store/seats.ts'
import { afterCheck, afterFailure, afterLogin, resultOf } from './check-rules.ts'
import type { ErrorCode, FlowStep } from './contract.ts'
import type { Answer, Learned, Pause } from './flow.ts'
import { endsAt, flowById, isInTime, liveFlow, waitsForProfile, type Asked, type FlowRow, type FlowType } from './flow-rows.ts'
import { FORGET, flowLifecycle, moveFlow } from './lifecycle.ts'
import { connectionById, lockConnection, type ConnectionRow } from './rows.ts'

/** Limits of the published service (docs of its managed auth): 20 minutes for a flow, 10 for one answer. */
export const FLOW_MS = 20 * 60_000
export const INPUT_MS = 10 * 60_000
/** A health check opens one page or two. */
export const CHECK_MS = 5 * 60_000

/** How a flow ends. */
export type FlowEnd =
  | {
      state: 'SUCCESS'
      /** As it may be shown. The whole address: {@link Flows.keepAddress}. */
      postLoginUrl: string | undefined
      learned: Learned
      /** Of the credential in which what was typed is kept now. */ credentialId?: string | undefined
    }
  | {
      state: 'FAILED'
      errorCode: ErrorCode
      errorMessage: string
      websiteError?: string | undefined
      /** The version of the stored values, if the site has refused them. */ refused?: string | undefined
    }
  | { state: 'EXPIRED' | 'CANCELED'; errorMessage: string }
  /** Of health checks. One that could not tell is FAILED. */
  | { state: 'AUTHENTICATED' | 'NEEDS_AUTH'; postLoginUrl?: string | undefined }

export interface FlowsSettings {
  db: Db
  scope: string
  leases: Pick<Leases, 'replica' | 'isDead'>
  notifier: EventNotifier
  /** For answers, typed values and addresses; the owner is the flow, or the connection. */
  sealer: Sealer
  /** The code that opens the page of a flow. */
  codeOf: (flowId: string) => string
  /** Most logins in progress. */
  maxPending: number
  /** Whether the service could log in again by itself. */
  canReauth: (connection: ConnectionRow) => Promise<boolean>
  now?: () => number
  random?: () => number
}

/**
 * Every `boolean` says whether it was done: false when the flow has ended, or another replica has it now. Whoever works on it stops then. Also false, of another step or
 * question: there is an answer to the last question that was not taken.
 */
export interface Flows {
  /** Starts a flow, and makes the code that opens its page. A health check that is under way gives way to a login. @throws 409 flow_in_progress; too_many_pending_sessions */
  begin(connection: ConnectionRow, type: FlowType, asked: Asked): Promise<{ flow: FlowRow; code: string }>
  /** Ends the flow of a connection, for a caller. Who works on it hears of it and ends its browser. */
  cancel(connectionId: string, why: string): Promise<FlowRow | undefined>
  /** Ends those whose time is over, of all replicas; how many they were. A login that was verified has some more, in which it is saved. */
  expireDue(): Promise<number>
  /** Takes the oldest flow on which no living replica works and that waits for no other login of its profile. */
  claimNext(): Promise<FlowRow | undefined>
  /** Gives back what this replica has claimed, but for those that it still works on. */
  giveBack(working: readonly string[]): Promise<void>
  /** A new flow, or one that was ended, of any replica. Returns how to stop hearing. */
  onNews(onNotice: () => void): () => void
  get(id: string): Promise<FlowRow | undefined>
  /** With the whole address after its last login, for the engine. */
  connectionOf(flow: Pick<FlowRow, 'connection_id'>): Promise<ConnectionRow | undefined>

  /** Stores the engine's memory: never with values. */
  remember(id: string, memory: object): Promise<boolean>
  /** Asks a person. `websiteError`: what the site has said of the last try; null: nothing. */
  ask(id: string, pause: Pause, step: 'AWAITING_INPUT' | 'AWAITING_EXTERNAL_ACTION', inputUntil: Date, websiteError?: string | null): Promise<boolean>
  /** What a person has answered, once; undefined while there is nothing. The flow is SUBMITTING then, and asks nothing any more. */
  takeAnswer(id: string): Promise<Answer | undefined>
  /** It sends a form by itself, or has heard that a person has acted elsewhere. What it asked is over. */
  submitting(id: string): Promise<boolean>
  /** It looks at a page again. */
  discovering(id: string): Promise<boolean>
  /** Tells what belongs to it; what is undefined stays. */
  bind(id: string, what: { browserId?: string; replayId?: string; telemetryCaptured?: boolean }): Promise<boolean>
  /** Keeps what a person has typed, until the flow ends. */
  keepTyped(id: string, values: Record<string, string>): Promise<boolean>
  openTyped(id: string): Promise<Record<string, string>>
  /** Keeps the address after the login sealed, as it has a value in it. Its connection gets it if the flow succeeds. */
  keepAddress(id: string, url: string): Promise<boolean>
  /** Ends it; what was answered and typed is forgotten. What follows for its connection is done in the same transaction. */
  finish(id: string, end: FlowEnd): Promise<boolean>
  /** Subscribes: resolves when the flow has changed, and at the latest after 5 s; rejects when `signal` aborts. Subscribe, then read. */
  next(id: string, signal: AbortSignal): { promise: Promise<void>; leave: () => void }

  /** For callers: takes an answer to a question, if it is still the present one and has no other answer. */
  answer(id: string, answer: Answer): Promise<boolean>
}

export const hashOfCode = (code: string): Buffer => createHash('sha256').update(code).digest()

export function makeFlows(settings: FlowsSettings): Flows {
  const { db, scope, leases, notifier, sealer, codeOf, maxPending, canReauth, now = Date.now, random = Math.random } = settings
  const seats = new SharedSeats(db, {
    name: `logins of ${scope}`,
    async count(tx) {
      const { rows } = await sql<{ taken: number }>`
        select count(*)::int as taken from auth_flows
        where scope = ${scope} and state = 'IN_PROGRESS' and type <> 'health_check' and ${isInTime()}`.execute(tx)
      return { of: maxPending, free: maxPending - rows[0]!.taken }
    },
  })
  const mine = sql<SqlBool>`replica = ${leases.replica}`
  /** What was answered was accepted: it is taken before another step. */
  const isTaken = sql<SqlBool>`${mine} and answer is null`

  /** Changes a flow in progress and notifies those who follow it. */
  async function change(id: string, columns: Record<string, unknown>, only: RawBuilder<SqlBool> = mine): Promise<boolean> {
    const set = sql.join(Object.entries({ ...columns, updated_at: sql`now()` }).map(([name, value]) => sql`${sql.ref(name)} = ${value}`))
    const { rows } = await sql`
      with changed as (update auth_flows set ${set} where id = ${id} and state = 'IN_PROGRESS' and ${only} returning id)
      select ${announceEvents(sql`id`)} from changed`.execute(db)
    return rows.length > 0
  }

  const news = (tx: Db, id: string) => sql`select ${announceNotice('auth_flow', sql`${id}`)}`.execute(tx)

  async function insert(tx: Db, connection: ConnectionRow, type: FlowType, asked: Asked, hasPage: boolean): Promise<FlowRow> {
    const id = newId()
    const { rows } = await sql<FlowRow>`
      with made as (
        insert into auth_flows (id, connection_id, scope, type, state, step, asked, previous_status, code_hash, expires_at)
        values (${id}, ${connection.id}, ${scope}, ${type}, 'IN_PROGRESS', 'DISCOVERING', ${JSON.stringify(asked)}, ${connection.status},
          ${hasPage ? hashOfCode(codeOf(id)) : null}, now() + ${type === 'health_check' ? CHECK_MS : FLOW_MS} * interval '1 millisecond')
        returning *),
      logged as (insert into auth_flow_events (flow_id, state) select id, state from made)
      select *, ${announceNotice('auth_flow', sql`id`)} from made`.execute(tx)
    return rows[0]!
  }

  /** Ends what is in the way of a new flow: one whose time is over, and a health check when a person wants to log in. */
  async function makeWay(tx: Db, connection: string, type: FlowType): Promise<void> {
    const live = await liveFlow(tx, connection)
    if (!live) return
    if (endsAt(live) <= now()) await end(tx, live.id, { state: 'EXPIRED', errorMessage: 'the time for this login is over' }, sql`true`)
    else if (live.type === 'health_check' && type !== 'health_check')
      await end(tx, live.id, { state: 'CANCELED', errorMessage: 'a login was started' }, sql`true`)
    else return
    await news(tx, live.id)
  }

  /** Moves a flow to its end, in a transaction. Undefined when it was not in progress. */
  async function end(tx: Db, id: string, how: FlowEnd, only: RawBuilder<SqlBool>): Promise<boolean> {
    const columns = {
      ...FORGET,
      step: 'COMPLETED',
      updated_at: sql`now()`,
      finished_at: sql`now()`,
      pause: null,
      ...('errorCode' in how && { error_code: how.errorCode, website_error: how.websiteError ?? null }),
      ...('errorMessage' in how && { error_message: how.errorMessage }),
      ...(how.state === 'SUCCESS' && { website_error: null }),
      ...('postLoginUrl' in how && { post_login_url: how.postLoginUrl ?? null }),
    }
    return (await moveFlow(tx, id, how.state, 'errorCode' in how ? how.errorCode : null, columns, only)) !== undefined
  }

  /** What follows of the end of a flow for its connection, which is locked. */
  async function followUp(tx: Db, connection: ConnectionRow, flow: FlowRow, how: FlowEnd): Promise<void> {
    const times = { at: now(), random: random() }
    const set = async (columns: Record<string, unknown>) => {
      const assigned = sql.join(Object.entries({ ...columns, updated_at: sql`now()` }).map(([name, value]) => sql`${sql.ref(name)} = ${value}`))
      await sql`update auth_connections set ${assigned} where id = ${connection.id}`.execute(tx)
    }
    if (how.state === 'SUCCESS') {
      await set({
        ...afterLogin(connection, times),
        status: 'AUTHENTICATED',
        checked_at: sql`now()`,
        post_login_url: how.postLoginUrl ?? null,
        landing: flow.landing === null ? null : sealer.seal(sealer.open(flow.landing, flow.id), connection.id),
        learned: JSON.stringify(how.learned),
        // Not in place of what a caller has set meanwhile. It may have been deleted since it was written.
        ...(how.credentialId !== undefined &&
          connection.credential_id === null &&
          connection.provider_id === null && {
            credential_id: sql`(select id from credentials where id = ${how.credentialId} for key share)`,
          }),
      })
      return
    }
    if (flow.type === 'health_check') {
      if (how.state === 'CANCELED') return
      const next = afterCheck(connection, resultOf(how), await canReauth(connection), times)
      const { reauth, isCheck, ...columns } = next
      await set({ ...columns, checks: JSON.stringify(columns.checks), ...(isCheck && { checked_at: sql`now()` }) })
      if (reauth) await insert(tx, connection, 'reauth', {}, false)
      return
    }
    const refused = how.state === 'FAILED' ? how.refused : undefined
    // Of one that nobody has asked for: the next try comes later each time.
    if (flow.type === 'reauth' && flow.code_hash === null && how.state !== 'CANCELED') {
      const { checks, ...columns } = afterFailure(connection, times, refused)
      await set({ ...columns, checks: JSON.stringify(checks) })
    } else if (refused !== undefined) await set({ checks: JSON.stringify({ ...connection.checks, refused }) })
  }

  async function finish(id: string, how: FlowEnd, only: RawBuilder<SqlBool>): Promise<boolean> {
    const before = await flowById(db, id)
    if (!before || flowLifecycle.isTerminal(before.state)) return false
    return db.transaction().execute(async (tx) => {
      // The connection first, as a deletion of it does.
      const connection = await lockConnection(tx, before.connection_id)
      if (!connection || !(await end(tx, id, how, only))) return false
      await followUp(tx, connection, before, how)
      return true
    })
  }

  return {
    async begin(connection, type, asked) {
      const take = async (tx: Db) => {
        // The end of a flow takes the same lock. A deletion that is under way is waited for.
        if (!(await lockConnection(tx, connection.id))) throw fault.notFound('auth connection', connection.id)
        await makeWay(tx, connection.id, type)
        return insert(tx, connection, type, asked, type !== 'health_check')
      }
      try {
        const flow = type === 'health_check' ? await db.transaction().execute(take) : await seats.take(undefined, take)
        return { flow, code: codeOf(flow.id) }
      } catch (error) {
        if (isDuplicate(error, 'auth_flows_live')) throw fault.flowInProgress()
        if (error instanceof NoSeat)
          throw fault.tooManyPending(`${maxPending} logins are in progress, the limit of this service (COB_MAX_LOGINS); try again when one has ended`)
        throw error
      }
    },
    async cancel(connectionId, why) {
      const live = await liveFlow(db, connectionId)
      if (!live || !(await finish(live.id, { state: 'CANCELED', errorMessage: why }, sql`true`))) return undefined
      await news(db, live.id)
      return live
    },
    async expireDue() {
      const { rows } = await sql<{ id: string; late: boolean }>`
        select id, not ${isInTime()} as late from auth_flows where scope = ${scope} and state = 'IN_PROGRESS'
          and (not ${isInTime()} or (answer is null and input_until <= now()))`.execute(db)
      let ended = 0
      for (const { id, late } of rows) {
        const errorMessage = late ? 'the time for this login is over' : 'nobody has answered in time'
        const still = late ? sql<SqlBool>`not ${isInTime()}` : sql<SqlBool>`answer is null and input_until <= now()`
        if (await finish(id, { state: 'EXPIRED', errorMessage }, still)) {
          ended++
          await news(db, id)
        }
      }
      return ended
    },
    async claimNext() {
      return db.transaction().execute(async (tx) => {
        // One claim at a time: two replicas would begin two logins of one profile at once.
        await sql`select pg_advisory_xact_lock(hashtextextended(${`cob:login-claims:${scope}`}, 0))`.execute(tx)
        const { rows } = await sql<FlowRow>`
          update auth_flows set replica = ${leases.replica} where id = (
            select f.id from auth_flows f where f.scope = ${scope} and f.state = 'IN_PROGRESS' and ${leases.isDead(sql`f.replica`)}
              and f.replica is distinct from ${leases.replica} and ${isInTime('f')} and not ${waitsForProfile}
            order by f.started_at, f.id limit 1 for no key update skip locked)
          returning *`.execute(tx)
        return rows[0]
      })
    },
    async giveBack(working) {
      const { rows } = await sql<{ id: string }>`
        update auth_flows set replica = null
        where scope = ${scope} and state = 'IN_PROGRESS' and ${mine} and id <> all (${working}::text[]) returning id`.execute(db)
      for (const { id } of rows) await news(db, id)
    },
    onNews: (onNotice) => notifier.on('auth_flow', onNotice),
    get: (id) => flowById(db, id),
    async connectionOf({ connection_id: id }) {
      const row = await connectionById(db, id)
      if (!row?.landing) return row
      try {
        return { ...row, post_login_url: sealer.open(row.landing, id) }
      } catch {
        // Its key is missing. The address without the value may do.
        return row
      }
    },
    remember: (id, memory) => change(id, { memory: JSON.stringify(memory) }),
    ask: (id, pause, step, inputUntil, websiteError = null) =>
      change(id, { pause: JSON.stringify(pause), step, input_until: inputUntil, website_error: websiteError }, isTaken),
    async takeAnswer(id) {
      const { rows } = await sql<{ answer: Buffer }>`
        with old as (select id, answer from auth_flows where id = ${id} and state = 'IN_PROGRESS' and ${mine} and answer is not null for no key update),
        taken as (update auth_flows f set answer = null, pause = null, input_until = null, step = 'SUBMITTING', updated_at = now()
          from old where f.id = old.id returning old.answer, f.id)
        select answer, ${announceEvents(sql`id`)} from taken`.execute(db)
      return rows[0] && (JSON.parse(sealer.open(rows[0].answer, id)) as Answer)
    },
    submitting: (id) => change(id, { step: 'SUBMITTING' satisfies FlowStep, pause: null, input_until: null, website_error: null }, isTaken),
    discovering: (id) => change(id, { step: 'DISCOVERING' satisfies FlowStep, pause: null, input_until: null }, isTaken),
    bind: (id, { browserId, replayId, telemetryCaptured }) =>
      change(id, {
        ...(browserId !== undefined && { browser_id: browserId }),
        ...(replayId !== undefined && { replay_id: replayId }),
        ...(telemetryCaptured !== undefined && { telemetry_captured: telemetryCaptured }),
      }),
    keepTyped: (id, values) => change(id, { typed: sealer.seal(JSON.stringify(values), id) }),
    async openTyped(id) {
      const { typed } = (await flowById(db, id)) ?? { typed: null }
      return typed === null ? {} : (JSON.parse(sealer.open(typed, id)) as Record<string, string>)
    },
    keepAddress: (id, url) => change(id, { landing: sealer.seal(url, id) }),
    finish: (id, how) => finish(id, how, mine),
    next: (id, signal) => notifier.next(id, signal),
    answer: (id, answer) =>
      change(
        id,
        { answer: sealer.seal(JSON.stringify(answer), id), step: 'SUBMITTING' satisfies FlowStep },
        sql`answer is null and pause->>'interactionId' = ${answer.interactionId} and expires_at > now() and (input_until is null or input_until > now())`,
      ),
  }
}
