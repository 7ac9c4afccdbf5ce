// The display of a browser that has none, the headless shell: pictures, input and clipboard by CDP.
import type { Log } from '../../../base/log.ts'
import { WaitTimeout } from '../../../base/wait.ts'
import type { Viewport } from '../../session/contract.ts'
import type { Display } from '../display.ts'
import { openClipboard } from './clipboard.ts'
import { FrontPage, type Browser } from './front.ts'
import { CdpInput } from './input.ts'
import { openKeyboard } from './keyboard.ts'
import { openPicture } from './picture.ts'
import { openScreen } from './screen.ts'

/** A display over the browser's own protocol. The browser may start after it, and again later. */
export function openCdpDisplay(browser: Browser, first: Viewport, log: Log): Display {
  const front = new FrontPage(browser)
  const input = new CdpInput(
    front,
    (err) => log.debug({ err }, 'a page did not take input'),
    () => screen.touch(),
  )
  const screen = openScreen(front, input, first, log)
  const picture = openPicture(front, screen, input, log)
  const ended = Promise.withResolvers<void>()
  return {
    screen,
    windows: {
      // They have neither tabs nor an address bar.
      alwaysFull: true,
      expectNotice: () => {},
      front: () => ({ fullscreen: true }),
      async caughtUp() {
        if (!(await input.taken())) throw new WaitTimeout('the page to take input', 0)
      },
      answers: () => input.taken(),
    },
    env: {},
    ended: ended.promise,
    said: () => '',
    openControls: async () => ({
      input,
      keyboard: openKeyboard(input),
      clipboard: openClipboard(front, input),
      // Chromium answers an event of the mouse when the page has answered the drag's event, so nobody has to look whether it goes on.
      drags: { isOn: false, cursors: 0, ended: async () => {} },
    }),
    openPicture: () => picture,
    close() {
      picture.close()
      screen.close()
      ended.resolve()
    },
  }
}
