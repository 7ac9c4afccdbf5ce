// The telemetry of a session under test, read from its stream as any client does. Every event is checked against the published contract.
import type { Envelope } from '../../src/agent/telemetry/contract.ts'
import { until } from '../../src/base/wait.ts'
import type { Cloud } from './cloud.ts'
import { openSession, type Session } from './session.ts'
import { assertEvent } from './telemetry-schemas.ts'

/** The limit for an event to arrive on a busy machine. */
const TOLD_MS = 20_000

export interface TelemetryEvents extends AsyncDisposable {
  /** All events so far, from the first event of the session. */
  all: Received[]
  of(type: string): Received[]
  /** Resolves with the first event that `matches`. @throws when none comes */
  next(type: string, matches?: (event: Received) => boolean): Promise<Received>
}

export interface Received {
  seq: number
  type: string
  category: string
  ts: number
  source: { kind: string; event?: string; metadata?: Record<string, string> }
  data: Record<string, unknown>
  truncated?: boolean
}

/** Reads a session's stream until it is disposed. Disposing fails when an event did not conform to the contract. */
export async function readTelemetry(cloud: Cloud, id: string): Promise<TelemetryEvents> {
  const stop = new AbortController()
  const answer = await cloud.fetch(`/browsers/${id}/telemetry/stream?replay=all`, { signal: stop.signal })
  if (!answer.ok || !answer.body) throw new Error(`the stream answered ${answer.status}: ${await answer.text()}`)
  const all: Received[] = []
  const wrong: string[] = []
  let broken: unknown
  const check = () => {
    if (broken !== undefined) throw broken as Error
    if (wrong.length > 0) throw new Error(`${wrong.length} events are not as the contract has them, the first one: ${wrong[0]}`)
  }
  const read = async () => {
    let rest = ''
    for await (const piece of answer.body!.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + piece).split('\n')
      rest = lines.pop()!
      for (const line of lines)
        if (line.startsWith('data:')) {
          const envelope = JSON.parse(line.slice(5)) as Envelope
          try {
            assertEvent(envelope)
          } catch (error) {
            wrong.push((error as Error).message)
          }
          const { seq, event } = envelope
          all.push({ seq, ...event, data: (event.data ?? {}) as Received['data'] } as Received)
        }
    }
  }
  const reading = read().catch((error: unknown) => {
    if (!stop.signal.aborted) broken = error
  })
  return {
    all,
    of: (type) => all.filter((event) => event.type === type),
    async next(type, matches = () => true) {
      const event = await until(`an event ${type}`, TOLD_MS, () => all.find((one) => one.type === type && matches(one)), { everyMs: 20 })
      check()
      return event
    },
    async [Symbol.asyncDispose]() {
      stop.abort()
      await reading
      check()
    },
  }
}

/** The telemetry option of a session that captures these categories besides the default ones. */
export const capturing = (...names: string[]) => ({ enabled: true, browser: Object.fromEntries(names.map((name) => [name, { enabled: true }])) })

export interface WatchedSession extends AsyncDisposable {
  session: Session
  received: TelemetryEvents
}

/** A session that captures these categories, and its events. */
export async function watchedSession(cloud: Cloud, names: readonly string[], options: object = {}): Promise<WatchedSession> {
  await using scope = new AsyncDisposableStack()
  const session = scope.use(await openSession(cloud, { ...options, telemetry: capturing(...names) } as Parameters<typeof openSession>[1]))
  const received = scope.use(await readTelemetry(cloud, session.id))
  const owner = scope.move()
  return { session, received, [Symbol.asyncDispose]: () => owner.disposeAsync() }
}
