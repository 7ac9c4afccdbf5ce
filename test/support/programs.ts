// Runs programs in a session through the published SDK, and reads their output to the end.
import type Kernel from '@onkernel/sdk'
import type { ProcessExecParams, ProcessStdoutStreamResponse } from '@onkernel/sdk/resources/browsers/process'
import { conforms } from './contract.ts'

export interface Ran {
  code: number
  out: string
  err: string
}

export const text = (base64 = ''): string => Buffer.from(base64, 'base64').toString()
export const base64 = (plain: string): string => Buffer.from(plain).toString('base64')

/** Runs a line of bash and returns its output. */
export async function run(client: Kernel, id: string, line: string, more: Partial<ProcessExecParams> = {}): Promise<Ran> {
  const reply = await client.browsers.process.exec(id, { command: 'bash', args: ['-c', line], ...more })
  conforms('ProcessExecResponse', reply)
  return { code: reply.exit_code!, out: text(reply.stdout_b64), err: text(reply.stderr_b64) }
}

/** The output that a reader of a program received. */
export interface Read {
  out: string
  err: string
  missed: number
  exitCode: number | undefined
}

/** Reads a program's output until its exit, or until `isEnough`. */
export async function read(client: Kernel, id: string, processId: string, isEnough: (seen: Read) => boolean = () => false): Promise<Read> {
  const seen: Read = { out: '', err: '', missed: 0, exitCode: undefined }
  const stream = await client.browsers.process.stdoutStream(processId, { id })
  for await (const event of stream as AsyncIterable<ProcessStdoutStreamResponse & { missed_bytes?: number }>) {
    conforms('ProcessStdoutStreamResponse', event)
    if (event.stream === 'stdout') seen.out += text(event.data_b64)
    if (event.stream === 'stderr') seen.err += text(event.data_b64)
    seen.missed += event.missed_bytes ?? 0
    if (event.event === 'exit') seen.exitCode = event.exit_code
    else if (isEnough(seen)) break
  }
  stream.controller.abort()
  return seen
}

/** The command lines of the session's processes that match, as seen inside the session. */
export async function alive(client: Kernel, id: string, pattern: string): Promise<string[]> {
  const { out } = await run(client, id, `ps -ww -eo stat=,args=`)
  const lines = out
    .split('\n')
    .filter((line) => !line.startsWith('Z'))
    .map((line) => line.replace(/^\S+\s+/, ''))
  return lines.filter((line) => new RegExp(pattern).test(line))
}
