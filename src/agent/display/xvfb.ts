// The X server of an instance: Xvfb with its framebuffer in a file. Ends with the instance's sandbox.
import { connect } from 'node:net'
import { until } from '../../base/wait.ts'

/** Xvfb compiles its keymap first; 40-340 ms were seen. */
const XVFB_READY_MS = 20_000

/** The largest screen, in pixels; RandR may choose any size up to it. */
export interface MaxScreen {
  width: number
  height: number
}

export const DISPLAY = ':0'
export const DISPLAY_SOCKET = '/tmp/.X11-unix/X0'
/** A folder in memory. */
export const FRAMEBUFFER_DIR = '/run/cob/fb'
export const FRAMEBUFFER = `${FRAMEBUFFER_DIR}/Xvfb_screen0`

/** Xvfb's command line. The driver starts it beside the agent, so that it is up by the time Node is. */
export const xvfbCommand = ({ width, height }: MaxScreen): string[] => [
  'Xvfb', DISPLAY, '-screen', '0', `${width}x${height}x24`, '-fbdir', FRAMEBUFFER_DIR, '-nolisten', 'tcp', '-ac', '-noreset', '-dpi', '96',
]

/** Resolves when the X server takes connections. */
export async function displayReady(signal: AbortSignal): Promise<void> {
  const takes = () =>
    new Promise<boolean>((resolve) => {
      const socket = connect(DISPLAY_SOCKET)
      socket.on('connect', () => resolve(true)).on('error', () => resolve(false))
      socket.on('connect', () => socket.destroy())
    })
  await until('the X server', XVFB_READY_MS, takes, { everyMs: 2, signal })
}
