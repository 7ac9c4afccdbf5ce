// The X server of the instance. The driver starts it beside the agent (spec.ts), or the agent does, where a lean session becomes a full one.
import { spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { until } from '../../../base/wait.ts'
import { DISPLAY_LOG, DISPLAY_SOCKET, xvfbCommand, type MaxScreen } from '../../spec.ts'

/** Xvfb compiles its keymap first; that took 40-340 ms. */
const XVFB_READY_MS = 20_000

/** Starts the X server as a child of this process, until it is disposed of. Whether it starts, {@link displayReady} tells. */
export function startDisplay(largest: MaxScreen): Disposable {
  const [program, ...args] = xvfbCommand(largest)
  const output = openSync(DISPLAY_LOG, 'a')
  try {
    const server = spawn(program!, args, { stdio: ['ignore', output, output] })
    server.on('error', () => {}) // then nobody takes connections
    return { [Symbol.dispose]: () => void server.kill() }
  } finally {
    closeSync(output)
  }
}

/** Resolves when the X server takes connections. */
export async function displayReady(signal: AbortSignal): Promise<void> {
  const takes = () =>
    new Promise<boolean>((resolve) => {
      const socket = connect(DISPLAY_SOCKET)
      socket.on('connect', () => resolve(true)).on('error', () => resolve(false))
      socket.on('connect', () => socket.destroy())
    })
  try {
    await until('the X server', XVFB_READY_MS, takes, { everyMs: 2, signal })
  } catch (error) {
    throw new Error(`the X server did not start: ${displaySaid()}`, { cause: error })
  }
}

/** The last output of the X server. */
export function displaySaid(): string {
  try {
    return readFileSync(DISPLAY_LOG, 'utf8').slice(-2000)
  } catch (error) {
    return (error as Error).message
  }
}
