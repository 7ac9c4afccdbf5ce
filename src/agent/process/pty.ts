// A program with a terminal. Loaded by the first one that asks for it: the native part costs a session some memory.
import { spawn, type IPty } from '@lydell/node-pty'
import { fault } from '../../http/fault.ts'
import { terminalSink } from './input.ts'
import type { Start } from './launch.ts'

/** What node-pty has and does not declare (its version is pinned). */
interface Inside {
  fd: number
  _socket: { destroyed: boolean }
}

const TERM = 'xterm-256color'

/** Starts `line` on a terminal of `rows` and `cols`. Both of its streams are one, told as stdout. */
export const startOnTerminal: Start<{ rows: number; cols: number }> = ({ line, env, cwd }, onOutput, { rows, cols }) => {
  let terminal: IPty
  try {
    terminal = spawn(line[0]!, line.slice(1), { name: env.TERM ?? TERM, rows, cols, cwd, env, encoding: null })
  } catch (error) {
    throw fault.tooMany(`the session can start no more programs with a terminal now (${(error as Error).message})`, 1)
  }
  const inside = terminal as unknown as Inside
  const isClosed = () => inside._socket.destroyed
  // Without an encoding it gives bytes, whatever its types say.
  terminal.onData((data) => onOutput('stdout', data as unknown as Buffer))
  return {
    pid: terminal.pid,
    exited: new Promise((resolve) => terminal.onExit(({ exitCode, signal }) => resolve(signal ? 128 + signal : exitCode))),
    sink: terminalSink(inside.fd, isClosed),
    resize: (size) => {
      if (!isClosed()) terminal.resize(size.cols, size.rows)
    },
  }
}
