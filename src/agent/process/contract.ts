// Programs in the session for callers. Paths are the agent's; the control plane offers them below a browser.
import * as z from 'zod'
import { events, json, route } from '../../http/route.ts'

const group = 'Browser Processes'

/** Linux's limit of a path (PATH_MAX). */
const MAX_PATH = 4096

/** Linux limits one argument or variable to 32 pages (MAX_ARG_STRLEN), and all of them to 2 MiB; the body's limit is 1 MiB. */
const MAX_TEXT = 131_071
const MAX_ARGS = 20_000

/** Bytes of one call's input. */
export const MAX_STDIN_BYTES = 4 * 1024 * 1024
/** As base64, plus the JSON around it. */
const MAX_STDIN_BODY = Math.ceil(MAX_STDIN_BYTES / 3) * 4 + 1024

/** Terminals store their size in 16 bits. */
const Cells = z.int().min(1).max(65_535)

const program = {
  /** A program's path, or a name that is searched in PATH. There is no shell unless the command is one: `sh` with `-c`. */
  command: z.string().min(1).max(MAX_PATH),
  args: z.array(z.string().max(MAX_TEXT)).max(MAX_ARGS).default([]),
  /** An existing folder. Default: `/home/kernel`. */
  cwd: z
    .string()
    .max(MAX_PATH)
    .refine((path) => path.startsWith('/'), 'must be an absolute path')
    .nullish(),
  /** Added to the session's own variables. */
  env: z
    .record(
      z.string().refine((name) => name !== '' && !name.includes('='), 'is no name of a variable'),
      z.string().max(MAX_TEXT),
    )
    .default({}),
  /** A name in /etc/passwd, a uid, or uid:gid: the user that the program sees as itself. Its permissions stay those of `kernel`. */
  as_user: z.string().min(1).max(64).nullish(),
  /** The program is root inside the session, as with `as_user` 0, and its HOME is /root. Not together with `as_user`. */
  as_root: z.boolean().default(false),
  /** After this many seconds the program and all its child processes are ended; null and 0 mean no limit. */
  timeout_sec: z.int().min(0).nullish(),
}

export const ExecBody = z.strictObject(program)
export type Exec = z.output<typeof ExecBody>

export const SpawnBody = z.strictObject({
  ...program,
  /** Input and output are a terminal. */
  allocate_tty: z.boolean().default(false),
  /** Size of the terminal. Default: 24 rows and 80 columns. */
  rows: Cells.optional(),
  cols: Cells.optional(),
})
export type Spawn = z.output<typeof SpawnBody>

const ExecReply = z.object({
  /** The exit code in a shell's form: 128 plus the signal's number when a signal ended the program. */
  exit_code: z.int(),
  stdout_b64: z.string(),
  stderr_b64: z.string(),
  duration_ms: z.int(),
  /** Bytes that were dropped because the stream was longer than 8 MiB; absent when none are missing. The last line of stderr says it, too. */
  stdout_missed_bytes: z.int().optional(),
  stderr_missed_bytes: z.int().optional(),
})
export type ExecReply = z.input<typeof ExecReply>

const Stream = z.enum(['stdout', 'stderr'])
export type Stream = z.output<typeof Stream>

const OutputEvent = z.object({
  /** Only with `data_b64`: the stream it was printed to. A terminal's output is stdout. */
  stream: Stream.optional(),
  data_b64: z.string().optional(),
  /** Bytes of this stream that are missing: printed before the oldest stored output, or faster than this reader reads. */
  missed_bytes: z.int().optional(),
  /** The last event, with `exit_code`. */
  event: z.literal('exit').optional(),
  exit_code: z.int().optional(),
})
export type OutputEvent = z.input<typeof OutputEvent>

const Status = z.object({
  state: z.enum(['running', 'exited']),
  /** Null while it runs. */
  exit_code: z.int().nullable(),
  /** Percent of one core used by the program and all its child processes since the last status call (over at least 0.1 s). */
  cpu_pct: z.number(),
  /** Resident memory of the program and all its child processes. */
  mem_bytes: z.int(),
})
export type Status = z.input<typeof Status>

const Ok = z.object({ ok: z.boolean() })
const one = z.strictObject({ process_id: z.string() })

export const processes = {
  execProcess: route({
    method: 'POST',
    path: '/process/exec',
    id: 'execProcess',
    group,
    summary: 'Run a program and wait until it exits',
    body: ExecBody,
    // timeout_sec is its limit.
    deadlineMs: Infinity,
    faults: ['too_many_requests'],
    reply: json(ExecReply),
  }),
  spawnProcess: route({
    method: 'POST',
    path: '/process/spawn',
    id: 'spawnProcess',
    group,
    summary: 'Start a program',
    body: SpawnBody,
    faults: ['too_many_requests'],
    reply: json(z.object({ process_id: z.string(), pid: z.int(), started_at: z.string() })),
  }),
  processStatus: route({
    method: 'GET',
    path: '/process/{process_id}/status',
    id: 'processStatus',
    group,
    summary: 'Get the status of a program',
    params: one,
    faults: ['not_found'],
    reply: json(Status),
  }),
  writeProcessStdin: route({
    method: 'POST',
    path: '/process/{process_id}/stdin',
    id: 'writeProcessStdin',
    group,
    summary: 'Write to the input of a program',
    params: one,
    body: z.strictObject({ data_b64: z.string() }),
    maxBodyBytes: MAX_STDIN_BODY,
    faults: ['not_found', 'conflict'],
    reply: json(z.object({ written_bytes: z.int() })),
  }),
  streamProcessOutput: route({
    method: 'GET',
    path: '/process/{process_id}/stdout/stream',
    id: 'streamProcessOutput',
    group,
    summary: 'Stream the output of a program, from its start to its exit',
    params: one,
    deadlineMs: Infinity,
    faults: ['not_found'],
    reply: events(OutputEvent),
  }),
  killProcess: route({
    method: 'POST',
    path: '/process/{process_id}/kill',
    id: 'killProcess',
    group,
    summary: 'Send a signal to a program and to all its child processes',
    params: one,
    body: z.strictObject({ signal: z.enum(['TERM', 'KILL', 'INT', 'HUP']).default('TERM') }),
    faults: ['not_found'],
    reply: json(Ok),
  }),
  resizeProcessTerminal: route({
    method: 'POST',
    path: '/process/{process_id}/resize',
    id: 'resizeProcessTerminal',
    group,
    summary: 'Change the size of a terminal',
    params: one,
    body: z.strictObject({ rows: Cells, cols: Cells }),
    faults: ['not_found', 'conflict'],
    reply: json(Ok),
  }),
}
