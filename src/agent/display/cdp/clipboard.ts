// The clipboard of a browser without a display. The browser keeps it to itself, so it is read and written by a hidden page.
import { Mutex } from '../../../base/mutex.ts'
import { sleep } from '../../../base/wait.ts'
import type { CdpSession } from '../../chromium/cdp.ts'
import { openHidden } from '../../chromium/hidden.ts'
import type { Clipboard } from '../display.ts'
import type { FrontPage } from './front.ts'
import type { CdpInput } from './input.ts'

/** The most that is read, in UTF-16 code units. */
const MAX_READ = 64 * 1024 * 1024
/** How often it is looked whether the clipboard has to be read for somebody who waits for a change. */
const LOOK_EVERY_MS = 100
/** How long after a click or a shortcut a page may copy. At other times the clipboard is not read again: that opens a page, which clients see. */
const COPIED_MS = 1_000

/** The page's answers to the editing commands: its text is copied, and what is pasted becomes its text. */
const PAGE = `
  globalThis.text = ''
  document.oncopy = (event) => { event.clipboardData.setData('text/plain', text); event.preventDefault() }
  document.onpaste = (event) => { text = event.clipboardData.getData('text/plain').slice(0, ${MAX_READ}); event.preventDefault() }`

export function openClipboard(front: FrontPage, input: Pick<CdpInput, 'commandAt'>): Clipboard {
  const turns = new Mutex()
  let known = ''

  /** Runs `work` with a hidden page, at which {@link PAGE} has been run. */
  async function withPage<T>(signal: AbortSignal | undefined, work: (page: CdpSession) => Promise<T>): Promise<T> {
    await using opened = new AsyncDisposableStack()
    const { pipe, targetId } = await front.hide((cdp) => openHidden(cdp, opened))
    const page = opened.use(await pipe.session(targetId, { ...(signal && { signal }) }))
    await page.send('Runtime.evaluate', { expression: PAGE })
    return await work(page)
  }

  /** An editing command, as its key would give it. */
  const command = (page: CdpSession, name: string) => page.send('Input.dispatchKeyEvent', { type: 'rawKeyDown', commands: [name] })

  const read = (signal?: AbortSignal): Promise<string> =>
    withPage(signal, async (page) => {
      await command(page, 'paste')
      const { result } = await page.send('Runtime.evaluate', { expression: 'text', returnByValue: true })
      return String(result.value ?? '')
    })

  return {
    read: (signal) => turns.run(async () => (known = await read(signal)), signal),
    write: (text, signal) =>
      turns.run(async () => {
        await withPage(signal, async (page) => {
          await page.send('Runtime.evaluate', { expression: `void (text = ${JSON.stringify(text)})` })
          await command(page, 'copy')
        })
        known = text
      }, signal),
    async changed(_since, until) {
      for (let isFirst = true; ; isFirst = false) {
        const age = performance.now() - input.commandAt
        const mayHaveCopied = age < COPIED_MS
        const before = known
        // A browser that has just ended is no reason to stop waiting: it starts again.
        if ((isFirst || mayHaveCopied) && (await turns.run(() => read()).catch(() => before)) !== before) return true
        const pause = mayHaveCopied ? Math.max(LOOK_EVERY_MS, age) : LOOK_EVERY_MS
        if (performance.now() + pause >= until) return false
        await sleep(pause)
      }
    },
  }
}
