// The protocol between the control plane and a runner. A runner is the process in an app's sandbox that builds the app, or runs
// one of its actions once. It listens on the socket that it gets as standard input, with plain HTTP and JSON lines.
import * as z from 'zod'
import { bytes, byteStream, json, lines, none, route } from '../http/route.ts'
import { CALLS, MAX_BODY_BYTES, MAX_NAME, MAX_NAMES, MAX_OUTPUT_BYTES, MAX_REASON } from './limits.ts'

export { MAX_LOG_LINE, MAX_OUTPUT_BYTES, MAX_UNREAD_BYTES, RUNNER_PATHS } from './limits.ts'

/** The source of the code. */
export const Source = z.discriminatedUnion('type', [
  z.object({ type: z.literal('archive'), entrypoint: z.string() }),
  z.object({
    type: z.literal('git'),
    url: z.string(),
    ref: z.string(),
    /** Folder of the app below the repository's root. */
    path: z.string().optional(),
    entrypoint: z.string(),
    /** Sent as the password of HTTP basic authentication; never in a log, argument list or stored file. */
    token: z.string().optional(),
  }),
])
export type Source = z.infer<typeof Source>

/** A runner's settings. */
export const RunnerSpec = z.object({
  id: z.string(),
  /** A build makes code and packs it; `unpack` receives packed code; a run executes it. */
  kind: z.enum(['build', 'unpack', 'run']),
  /** For builds. */
  source: Source.optional(),
  /** Variables for the app's code: the caller's, overridden by ours (KERNEL_API_KEY, KERNEL_BASE_URL, ENTRYPOINT_RELPATH). */
  env: z.record(z.string(), z.string()),
  /** Used in messages that explain why a process was killed. */
  memoryMb: z.number(),
  logLevel: z.string(),
  /** The TCP port at which it listens, on all addresses and with keys; absent: it listens on the socket that is its standard input. */
  port: z.number().optional(),
  /** Of a run: its code arrives by `unpackCode`, and the app starts after that. */
  awaitsCode: z.boolean().optional(),
  /** The runner ends itself when no service has watched it for its run's time plus this long. The driver adds it; without it the runner never ends itself. */
  graceSeconds: z.number().optional(),
})
export type RunnerSpec = z.infer<typeof RunnerSpec>

const Name = z.string().min(1).max(MAX_NAME)
/** The apps that the code registered, as the SDK's registry lists them. */
export const AppsFound = z.array(z.object({ name: Name, actions: z.array(z.object({ name: Name })).max(MAX_NAMES) })).max(MAX_NAMES)
export type AppsFound = z.infer<typeof AppsFound>

/** A shortened reason ends with an ellipsis. */
const Reason = z.string().max(MAX_REASON + 1)
export const Ready = z.discriminatedUnion('ok', [z.object({ ok: z.literal(true) }), z.object({ ok: z.literal(false), reason: Reason })])
export type Ready = z.infer<typeof Ready>

export const Run = z.object({
  invocation: z.string(),
  app: z.string(),
  action: z.string(),
  /** JSON text; null when there is no payload. */
  payload: z.string().nullable(),
  /** The run's timeout: how long the runner may continue without a service that watches it, plus its grace. */
  timeoutSeconds: z.number(),
})
export type Run = z.infer<typeof Run>

const seq = z.int().min(1)
const at = z.string().max(64)

/** `seq` counts from 1 without gaps; `at` is RFC 3339. Readers cut long lines and reasons. The last event is `loaded` of a build, `result` of a run, or `failed` of either. */
export const RunnerEvent = z.discriminatedUnion('type', [
  z.object({ seq, at, type: z.literal('log'), line: z.string() }),
  z.object({ seq, at, type: z.literal('loaded'), apps: AppsFound }),
  z.object({ seq, at, type: z.literal('failed'), reason: z.string() }),
  z.object({
    seq,
    at,
    type: z.literal('result'),
    ok: z.boolean(),
    /** JSON text; null for no value. For a failed run: `{"error": message}`. */
    output: z.string().max(MAX_OUTPUT_BYTES).nullable(),
    /** The reason of a failure; null for a success. */
    reason: z.string().nullable(),
  }),
])
export type RunnerEvent = z.infer<typeof RunnerEvent>

const group = 'Runner'
/** The calls of a runner, in addition to the driver's lifeline, which is the same as an agent's (`watchSession`). */
export const runner = {
  sendArchive: route({
    ...CALLS.sendArchive,
    id: 'sendArchive',
    group,
    summary: "Send a build's zip, once; the build begins when it is complete",
    body: byteStream,
    bodyKind: 'bytes',
    maxBodyBytes: Infinity,
    deadlineMs: Infinity,
    reply: none(),
  }),
  packedCode: route({
    ...CALLS.packedCode,
    id: 'packedCode',
    group,
    summary: 'Send the packed code: of a build that has succeeded, or of a runner that packs, as soon as it is packed',
    deadlineMs: Infinity,
    reply: bytes('application/zstd'),
    faults: ['conflict'],
  }),
  unpackCode: route({
    ...CALLS.unpackCode,
    id: 'unpackCode',
    group,
    summary: 'Unpack code that another runner has packed, once; answers when all of it is there',
    body: byteStream,
    bodyKind: 'bytes',
    maxBodyBytes: Infinity,
    deadlineMs: Infinity,
    reply: none(),
    faults: ['conflict'],
  }),
  ready: route({ ...CALLS.ready, id: 'ready', group, summary: 'Wait until the app is loaded or has failed', deadlineMs: Infinity, reply: json(Ready) }),
  run: route({
    ...CALLS.run,
    id: 'run',
    group,
    summary: 'Give the runner its one run, which waits until the app is loaded',
    body: Run,
    maxBodyBytes: MAX_BODY_BYTES,
    reply: none(CALLS.run.status),
    faults: ['conflict'],
  }),
  events: route({
    ...CALLS.events,
    id: 'events',
    group,
    summary: 'Stream the events after one, until the last event of the runner',
    query: z.strictObject({ after: z.coerce.number().int().min(0) }),
    deadlineMs: Infinity,
    reply: lines(RunnerEvent),
  }),
  acknowledge: route({
    ...CALLS.acknowledge,
    id: 'acknowledge',
    group,
    summary: 'Let the runner drop the events up to one, because they are stored',
    body: z.strictObject({ seq: z.int().min(0) }),
    reply: none(),
  }),
}
