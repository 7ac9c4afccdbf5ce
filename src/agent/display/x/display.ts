// The display of an X server: Xvfb, which the driver starts beside the agent.
import type { Log } from '../../../base/log.ts'
import { keepSmall } from '../../logs/small.ts'
import type { Viewport } from '../../session/contract.ts'
import { DISPLAY, DISPLAY_LOG, DISPLAY_SOCKET, FRAMEBUFFER } from '../../spec.ts'
import type { Display } from '../display.ts'
import { openClipboard } from './clipboard.ts'
import { watchDrags } from './drags.ts'
import { openInput } from './input.ts'
import { openKeyboard } from './keyboard.ts'
import { XPicture } from './picture.ts'
import { openScreen } from './screen.ts'
import { manageWindows } from './windows.ts'
import { connectX } from './x11.ts'
import { displayReady, displaySaid } from './xvfb.ts'

/** Waits for the X server, sets the first size of its screen, and becomes its window manager. @throws when the server does not start */
export async function openXDisplay(first: Viewport, log: Log, signal: AbortSignal): Promise<Display> {
  await displayReady(signal)
  keepSmall(DISPLAY_LOG, log)
  const connection = await connectX(DISPLAY, (err) => log.debug({ err }, 'the X server refused a request'), signal)
  const screen = await openScreen(connection, FRAMEBUFFER, first)
  const windows = await manageWindows(connection, screen, log)
  return {
    screen,
    windows,
    env: { DISPLAY },
    ended: connection.ended,
    said: displaySaid,
    openControls: async () => ({
      input: openInput(connection),
      keyboard: await openKeyboard(connection, windows.caughtUp),
      clipboard: await openClipboard(connection),
      drags: await watchDrags(connection),
    }),
    openPicture: (onCrash) => new XPicture(DISPLAY_SOCKET, log, onCrash),
    close: connection.close,
  }
}
