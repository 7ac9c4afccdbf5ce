// The logs contract, answered by files and by the output of the instance's programs.
import type { Handlers } from '../../http/route.ts'
import type { LogEvent, logs, ProgramName } from './contract.ts'
import { openLines } from './follow.ts'
import type { LogRing } from './ring.ts'

/** The source of logs: real in an instance, refused by the fake driver. With `follow`, it yields every line that is written after the call has resolved. */
export interface Logs {
  file(path: string, follow: boolean, signal: AbortSignal): Promise<AsyncIterable<LogEvent>>
  program(name: ProgramName, follow: boolean, signal: AbortSignal): Promise<AsyncIterable<LogEvent>>
}

/** The output of the instance's programs: in memory, or in a file that its owner keeps small. */
export type Programs = Record<ProgramName, LogRing | string>

export function openLogs(programs: Programs): Logs {
  const file = async (path: string, follow: boolean, signal: AbortSignal) =>
    events(await openLines(path, follow, signal), (message) => ({ message, at: new Date() }))
  return {
    file,
    async program(name, follow, signal) {
      const source = programs[name]
      return typeof source === 'string' ? file(source, follow, signal) : events(source.read(follow, signal), ({ text, at }) => ({ message: text, at }))
    },
  }
}

async function* events<T>(lines: AsyncIterable<T>, messageOf: (line: T) => { message: string; at: Date }): AsyncGenerator<LogEvent> {
  for await (const line of lines) {
    const { message, at } = messageOf(line)
    yield { event: 'log', message, timestamp: at.toISOString() }
  }
}

export function logHandlers(from: Logs): Handlers<typeof logs> {
  return {
    streamLogs: ({ query: { source, path, supervisor_process: program, follow }, signal }) =>
      source === 'path' ? from.file(path!, follow, signal) : from.program(program!, follow, signal),
  }
}
