// Explains the exit of a process in a message that the app's author can act on.
import { constants } from 'node:os'

/** Exit codes as a shell reports them: 128 plus the signal. */
const KILLED = 137
const ABORTED = 134
const SIGNALS: Record<number, string> = { 131: 'SIGQUIT', 132: 'SIGILL', 133: 'SIGTRAP', 135: 'SIGBUS', 136: 'SIGFPE', 139: 'SIGSEGV', 143: 'SIGTERM' }

/** The reason for a missing result, when the process of `what` has ended with `code` before `before`. */
export function whyEnded(what: string, code: number, before: string, memoryMb: number): string {
  if (code === KILLED) return `${what} was killed; most likely it used more memory than its limit of ${memoryMb} MiB`
  if (code === ABORTED) return `${what} aborted (SIGABRT); most likely it ran out of memory, of which it may use ${memoryMb} MiB; the logs say more`
  if (code in SIGNALS) return `${what} crashed with ${SIGNALS[code]} before ${before}`
  return `${what} ended its process with exit code ${code} before ${before}`
}

/** The exit code of a child process, as a shell would report it. */
export const exitCode = (code: number | null, signal: NodeJS.Signals | null): number => code ?? 128 + constants.signals[signal ?? 'SIGKILL']
