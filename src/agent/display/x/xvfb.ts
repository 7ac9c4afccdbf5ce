// Waiting for the X server of the instance, which the driver starts beside the agent (spec.ts).
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { until } from '../../../base/wait.ts'
import { DISPLAY_LOG, DISPLAY_SOCKET } from '../../spec.ts'

/** Xvfb compiles its keymap first; that took 40-340 ms. */
const XVFB_READY_MS = 20_000

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
