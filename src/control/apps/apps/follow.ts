// Follows the log of a deployment or a run for callers: the present state, the lines so far, then new events as they come, and heartbeats.
import { resultWithin } from '../../../base/wait.ts'
import { EVENT_ID } from '../../../http/sse.ts'
import type { Db } from '../../../store/db.ts'
import type { EventNotifier } from '../../../store/events.ts'
import { followEvents, lastEvent, readEvents, type AppEvent, type EventSource } from './app-events.ts'

/** Log commands that do not follow disconnect after 3 s without any event, this one included. This interval is well below that. */
export const HEARTBEAT_MS = 15_000

export interface Followed<E extends object> {
  db: Db
  notifier: EventNotifier
  source: EventSource
  /** Omits older lines; undefined sends all stored lines. New lines are always sent. */
  since: Date | undefined
  /** The id that a reconnecting reader sends. The stream continues after that event and repeats none. */
  lastEventId: string | string[] | undefined
  signal: AbortSignal
  /** The first state, which no event reports. */
  initial: { state: string; at: Date }
  /** Whether this state is final. The stream ends after it. */
  isLast: (state: string) => boolean
  /** The message for an event; undefined for none. Followers of a deployment do not see the states of its runs. */
  show: (event: AppEvent) => Promise<E | undefined> | E | undefined
  heartbeatMs?: number
}

const APPS_AT_ONCE = 10

type Beat = { event: 'sse_heartbeat'; timestamp: string }

/**
 * Sends the present state first, with the apps (kind `app`) that were found before it; then the lines since; then every new event in order. If the run or build
 * has already ended, the lines come first, and the last state ends the stream. Resolves when the start position is known: every later event counts as new.
 */
export async function follow<E extends object>(what: Followed<E>): Promise<AsyncGenerator<E | Beat>> {
  const { db, source, initial } = what
  const head = await lastEvent(db, source)
  const present = (await lastState(db, source, head)) ?? firstState(source, initial)
  return withHeartbeats(what, { head, present })
}

/** The start position of a follower: the last event so far, and the last state. */
interface Place {
  head: number
  present: AppEvent
}

async function* withHeartbeats<E extends object>(what: Followed<E>, place: Place): AsyncGenerator<E | Beat> {
  const stop = new AbortController()
  const signal = AbortSignal.any([what.signal, stop.signal])
  const events = tell({ ...what, signal }, place)
  try {
    for (let next = events.next(); ;) {
      next.catch(() => {})
      const result = await resultWithin(what.heartbeatMs ?? HEARTBEAT_MS, next)
      if (result === undefined) yield { event: 'sse_heartbeat', timestamp: new Date().toISOString() }
      else if (result.done) return
      else {
        yield result.value
        next = events.next()
      }
    }
  } finally {
    stop.abort(new Error('the follower has left'))
  }
}

async function* tell<E extends object>({ db, notifier, source, since, lastEventId, signal, isLast, show }: Followed<E>, place: Place): AsyncGenerator<E> {
  const { head, present } = place
  const isOver = isLast(present.state!)
  const resumed = typeof lastEventId === 'string' && /^\d{1,15}$/.test(lastEventId) ? Math.min(Number(lastEventId), head) : undefined
  if (resumed === undefined) {
    if (!isOver) {
      // These events have no ids: a reader that reconnects before the first line starts from the beginning.
      for await (const app of foundApps(db, source, head)) yield* shown(show(app))
      yield* shown(show(present))
    }
    for await (const line of lines(db, source, head, since)) yield* shown(show(line), line.id)
    if (isOver) yield* shown(show(present), present.id)
  }
  if (isOver && (resumed === undefined || resumed >= present.id)) return
  for await (const events of followEvents(db, notifier, source, resumed ?? head, signal))
    for (const event of events) {
      if (event.kind === 'state' && !isOwn(event, source)) continue
      yield* shown(show(event), event.id)
      if (event.kind === 'state' && isLast(event.state!)) return
    }
}

/** Lines up to `head`. Newer ones come with the followed events. */
async function* lines(db: Db, source: EventSource, head: number, since: Date | undefined): AsyncGenerator<AppEvent> {
  for (let at = 0; ;) {
    const events = await readEvents(db, source, at, since)
    for (const event of events) {
      if (event.id > head) return
      if (event.kind === 'log') yield event
    }
    if (events.length === 0) return
    at = events.at(-1)!.id
  }
}

async function* shown<E extends object>(event: Promise<E | undefined> | E | undefined, id?: number): AsyncGenerator<E> {
  const value = await event
  if (value !== undefined) yield id === undefined || id === 0 ? value : Object.assign(value, { [EVENT_ID]: id })
}

/** Whether a state belongs to the followed object: a deployment's log also has the states of its runs. */
const isOwn = (event: AppEvent, source: EventSource): boolean => 'invocation' in source || event.invocation_id === null

const ofKind = (db: Db, source: EventSource, kind: string, head: number) =>
  db
    .selectFrom('app_events')
    .selectAll()
    .where('deployment_id', '=', source.deployment)
    .where('invocation_id', 'invocation' in source ? '=' : 'is', 'invocation' in source ? source.invocation : null)
    .where('kind', '=', kind)
    .where('id', '<=', head)

const lastState = async (db: Db, source: EventSource, head: number) =>
  (await ofKind(db, source, 'state', head).orderBy('id', 'desc').limit(1).executeTakeFirst()) as AppEvent | undefined

/** A few at a time: each may have a thousand actions. */
async function* foundApps(db: Db, source: EventSource, head: number): AsyncGenerator<AppEvent> {
  for (let after = 0; ;) {
    const apps = (await ofKind(db, source, 'app', head).where('id', '>', after).orderBy('id').limit(APPS_AT_ONCE).execute()) as AppEvent[]
    yield* apps
    if (apps.length < APPS_AT_ONCE) return
    after = apps.at(-1)!.id
  }
}

const firstState = (source: EventSource, { state, at }: { state: string; at: Date }): AppEvent => ({
  id: 0,
  deployment_id: source.deployment,
  invocation_id: 'invocation' in source ? source.invocation : null,
  at,
  kind: 'state',
  state,
  reason: null,
  line: null,
  data: null,
})
