// The events of a runner in a form that the service can store. Untrusted code runs beside a runner, so each event is checked, and their rate is limited.
import { Bucket, type Rate } from '../../../base/bucket.ts'
import { within } from '../../../base/wait.ts'
import { call, openLines } from '../../../http/client.ts'
import type { Endpoint } from '../../../http/endpoint.ts'
import { MAX_LOG_LINE, MAX_OUTPUT_BYTES, runner, type RunnerEvent } from '../../../runner/contract.ts'

/** Timeout for the first answer of a running runner, which answers at once. It allows for an overloaded machine. */
const BEGIN_MS = 30_000
/** Limit on one event, in bytes: an output or a line as JSON text (six bytes for a control character), and its envelope. */
const MAX_EVENT_BYTES = 6 * Math.max(MAX_OUTPUT_BYTES, MAX_LOG_LINE) + 64 * 1024

/** Limit on the JSON values of the events that arrive at once. An event has some ten; an event about apps has a few for each action. */
const MAX_VALUES = 300_000

/** Events with older times are refused: no build or run takes that long. */
const MAX_AGE_MS = 24 * 3_600_000

/**
 * How often a runner's events are passed on. Each batch is a transaction, and an app or a build may print without end. A run with a result and a few lines
 * never waits.
 */
const BATCHES: Rate = { perSecond: 10, atOnce: 40 }
/** Batches that come faster are joined, up to this size in characters. An app that prints more has to wait. */
const MAX_JOINED = 512 * 1024
/** The cost of an event in addition to its text. */
const EVENT_COST = 100

/**
 * Events after `after`, in batches as they come, until the runner's last one. It ends with an error for a gap in the sequence, an event of the wrong shape, or
 * a connection that ends before the last event.
 */
export async function* runnerEvents(endpoint: Endpoint, after: number, signal: AbortSignal): AsyncGenerator<RunnerEvent[]> {
  const late = new AbortController()
  const options = { signal: AbortSignal.any([signal, late.signal]), maxLineBytes: MAX_EVENT_BYTES, maxValues: MAX_VALUES }
  const opening = openLines(endpoint, runner.events, { query: { after } }, options)
  const batches = await within('a runner to tell its events', BEGIN_MS, opening, signal).catch((error: unknown) => {
    late.abort(error)
    throw error
  })
  let last = after
  for await (const batch of batches) {
    const wrong = batch.findIndex(({ seq }, at) => seq !== last + 1 + at)
    if (wrong !== -1) throw new Error(`event ${batch[wrong]!.seq} of the runner came where ${last + 1 + wrong} was due`)
    last += batch.length
    yield batch.map(storable)
    if (batch.some(({ type }) => type !== 'log')) return
  }
  throw new Error('the runner ended before its last event')
}

/** Allows the runner to drop stored events. If this acknowledgement is lost, the runner keeps them and sends them again. */
export const acknowledge = (endpoint: Endpoint, seq: number, signal: AbortSignal): Promise<void> =>
  call(endpoint, runner.acknowledge, { body: { seq } }, { signal: inTime(runner.acknowledge, signal) }).catch(() => {})

/** Limits a call by the deadline of its route. The runner itself ends no call: it may be overloaded. */
export const inTime = ({ deadlineMs }: { deadlineMs: number }, signal: AbortSignal): AbortSignal => AbortSignal.any([signal, AbortSignal.timeout(deadlineMs)])

/** A runner's event in a form that the store accepts: valid times, lines within their limit, no U+0000. */
function storable(event: RunnerEvent): RunnerEvent {
  const now = Date.now()
  const at = Date.parse(event.at)
  const sentAt = at <= now && at >= now - MAX_AGE_MS ? event.at : now
  const text = (value: string) => value.replaceAll('\0', '\ufffd').toWellFormed()
  const common = { ...event, at: new Date(sentAt).toISOString() }
  switch (common.type) {
    case 'log':
      return { ...common, line: text(cut(common.line)) }
    case 'failed':
      return { ...common, reason: text(cut(common.reason)) }
    case 'result':
      return { ...common, output: common.output === null ? null : text(common.output), reason: common.reason === null ? null : text(cut(common.reason)) }
    default:
      return common
  }
}

const cut = (line: string): string =>
  Buffer.byteLength(line) <= MAX_LOG_LINE ? line : new TextDecoder().decode(Buffer.from(line).subarray(0, MAX_LOG_LINE), { stream: true })

/** Passes a runner's events on a few times a second at most, in larger batches if they come faster. If `said` fails, this fails after its last event. */
export async function* paced(said: AsyncGenerator<RunnerEvent[]>): AsyncGenerator<RunnerEvent[]> {
  const pace = new Bucket(BATCHES)
  const ask = (): Promise<Answer> =>
    said.next().then(
      (result) => ({ result }),
      (error: unknown) => ({ error }),
    )
  let next: Promise<Answer> | undefined
  try {
    for (;;) {
      const answer = await (next ?? ask())
      next = undefined
      if ('error' in answer) throw answer.error
      if (answer.result.done) return
      const events = [...answer.result.value]
      const waitMs = pace.take()
      if (waitMs > 0) next = (await join(events, ask, waitMs)).next
      yield events
    }
  } finally {
    const ended = said.return(undefined)
    // A pending read ends first: by its answer, or by its signal. A reader that leaves does not wait for it.
    if (next) ended.catch(() => {})
    else await ended
  }
}

type Answer = { result: IteratorResult<RunnerEvent[]> } | { error: unknown }

/** Adds events that arrive within `ms` to `events`. `next` of the result is the first answer that is not added. Stops at the end of the stream. */
async function join(events: RunnerEvent[], ask: () => Promise<Answer>, ms: number): Promise<{ next: Promise<Answer> }> {
  const { promise: due, resolve } = Promise.withResolvers<undefined>()
  const timer = setTimeout(() => resolve(undefined), ms)
  try {
    let size = 0
    for (const event of events) size += sizeOf(event)
    for (let waiting = ask(); ; waiting = ask()) {
      const more = size < MAX_JOINED ? await Promise.race([waiting, due]) : await due
      if (more === undefined || 'error' in more || more.result.done) return { next: waiting }
      for (const event of more.result.value) {
        events.push(event)
        size += sizeOf(event)
      }
    }
  } finally {
    clearTimeout(timer)
  }
}

const sizeOf = (event: RunnerEvent): number => EVENT_COST + ('line' in event ? event.line.length : 0)
