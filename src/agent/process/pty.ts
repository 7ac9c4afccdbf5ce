// A program with a terminal. Loaded only when a caller asks for one: the native module costs memory in the session.
import { spawn, type IPty } from '@lydell/node-pty'
import { fault } from '../../http/fault.ts'
import { terminalSink } from './input.ts'
import type { Start } from './launch.ts'

/** Fields of node-pty that its types do not declare (its version is pinned). */
interface Inside {
  fd: number
  _socket: { destroyed: boolean }
}

const TERM = 'xterm-256color'

/** Starts `line` on a terminal of `rows` and `cols`. Both of its streams are reported as stdout. */
export const startOnTerminal: Start<{ rows: number; cols: number }> = ({ line, env, cwd }, onOutput, { rows, cols }) => {
  let terminal: IPty
  try {
    terminal = spawn(line[0]!, line.slice(1), { name: env.TERM ?? TERM, rows, cols, cwd, env, encoding: null })
  } catch (error) {
    throw fault.tooMany(`the session can start no more programs with a terminal now (${(error as Error).message})`, 1)
  }
  const inside = terminal as unknown as Inside
  const isClosed = () => inside._socket.destroyed
  // Without an encoding it passes bytes, although its types say string.
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
