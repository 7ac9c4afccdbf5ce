// The protocol between the control plane and a runner. A runner is the process in an app's sandbox that builds the app, or runs
// one of its actions once. It listens on the socket that it gets as standard input, with plain HTTP and JSON lines.
//
//   GET  /session/watch      the driver's lifeline: {"event":"ready"} and then {"event":"heartbeat"} every 5 s, a line each
//   PUT  /archive            a build's zip, once; the build begins when it is complete. 204, or 400 {message}
//   GET  /ready              held until the app is loaded or has failed: Ready
//   POST /runs               Run: the one run of this runner. 202; 409 {message} when it has had one; the run waits until the app is loaded
//   GET  /events?after=SEQ   RunnerEvent lines after SEQ, held open; ends after the last event of the runner
//   POST /ack                {"seq": SEQ}: the reader has stored the events up to SEQ; the runner may drop them. 204
import { z } from 'zod'

export { MAX_LOG_LINE, MAX_OUTPUT_BYTES, MAX_UNREAD_BYTES, RUNNER_PATHS } from './limits.ts'

/** Where the code comes from. */
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
  kind: z.enum(['build', 'run']),
  /** For builds. */
  source: Source.optional(),
  /** Variables for the app's code: the caller's, overridden by ours (KERNEL_API_KEY, KERNEL_BASE_URL, ENTRYPOINT_RELPATH). */
  env: z.record(z.string(), z.string()),
  /** Used in messages that explain why a process was killed. */
  memoryMb: z.number(),
  logLevel: z.string(),
  /** The runner ends itself when no service has watched it for its run's time plus this long. The driver adds it; without it the runner never does. */
  graceSeconds: z.number().optional(),
})
export type RunnerSpec = z.infer<typeof RunnerSpec>

/** The apps that the code registered, as the SDK's registry lists them. */
export const AppsFound = z.array(z.object({ name: z.string(), actions: z.array(z.object({ name: z.string() })) }))
export type AppsFound = z.infer<typeof AppsFound>

export const Ready = z.discriminatedUnion('ok', [z.object({ ok: z.literal(true) }), z.object({ ok: z.literal(false), reason: z.string() })])
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

/** `seq` counts from 1 without gaps; `at` is RFC 3339. `loaded` is the last event of a build, `failed` of a build or run, `result` of a run. */
export const RunnerEvent = z.discriminatedUnion('type', [
  z.object({ seq: z.number(), at: z.string(), type: z.literal('log'), line: z.string() }),
  z.object({ seq: z.number(), at: z.string(), type: z.literal('loaded'), apps: AppsFound }),
  z.object({ seq: z.number(), at: z.string(), type: z.literal('failed'), reason: z.string() }),
  z.object({
    seq: z.number(),
    at: z.string(),
    type: z.literal('result'),
    ok: z.boolean(),
    /** JSON text; null for no value. For a failed run: `{"error": message}`. */
    output: z.string().nullable(),
    /** Why it failed; null for a success. */
    reason: z.string().nullable(),
  }),
])
export type RunnerEvent = z.infer<typeof RunnerEvent>
