// Opens a profile in the running Chromium, as a second start of it would: over the socket by which a new process hands its command line to the one that
// runs (chrome/browser/process_singleton_posix.cc).
import { connect } from 'node:net'
import { until, within } from '../../base/wait.ts'
import type { Cdp } from './cdp.ts'
import type { Log } from '../../base/log.ts'

/** Chromium takes a command line within milliseconds. */
const TAKEN_MS = 5_000
/** Longer than any answer of it, in bytes. */
const MAX_ANSWER = 100
/** A profile of 50 MB opened in 0.2 s alone; Chromium on a busy machine takes as long for it as for a start. */
const OPENED_MS = 60_000
/** A page closes within milliseconds. One that hangs is ended by Chromium after about a second. */
const CLOSED_MS = 5_000

/** Hands a command line over to the Chromium that has `socket`. @throws when it does not take it */
export async function handOver(socket: string, args: readonly string[]): Promise<void> {
  const connection = connect(socket)
  try {
    const answer = new Promise<string>((resolve, reject) => {
      let text = ''
      connection.on('data', (piece) => {
        text += piece.toString('latin1')
        if (text.length > MAX_ANSWER) connection.destroy(new Error('Chromium gave a long answer to a command line'))
      })
      connection.on('end', () => resolve(text))
      connection.on('error', reject)
    })
    connection.end(['START', '/', 'chromium', ...args].join('\0'))
    const said = await within('Chromium to take a command line', TAKEN_MS, answer)
    if (said !== 'ACK') throw new Error(`Chromium did not take a command line: ${JSON.stringify(said)}`)
  } finally {
    connection.destroy()
  }
}

/**
 * Has the running Chromium open the profile in `folder`, a folder of its user data directory, and resolves with a page of it. Then the default
 * context is the profile's: Chromium answers commands for it when it has read the cookies. What was open before is closed. `urls` are opened; without any, what the profile restores. @throws when Chromium ends,
 * or does not open it
 */
export async function moveToProfile(cdp: Cdp, socket: string, folder: string, urls: readonly string[], log: Log): Promise<string> {
  const before = await cdp.send('Target.getBrowserContexts', {})
  const old = await pagesOf(cdp)
  const openedPage = async () => {
    const { defaultBrowserContextId: now } = await cdp.send('Target.getBrowserContexts', {})
    if (now === before.defaultBrowserContextId) return undefined
    return (await pagesOf(cdp)).find(({ browserContextId }) => browserContextId === now)?.targetId
  }
  await handOver(socket, [`--profile-directory=${folder}`, '--start-maximized', ...urls])
  const page = await until('the window of the profile', OPENED_MS, openedPage, { everyMs: 5 })
  await closeOld(
    cdp,
    old.map(({ targetId }) => targetId),
    before.browserContextIds,
    log,
  )
  return page
}

const pagesOf = async (cdp: Cdp) => (await cdp.send('Target.getTargets', {})).targetInfos.filter(({ type }) => type === 'page')

/** Closes what was open in the profile before. Only after the new window is there: with its last window Chromium ends. */
async function closeOld(cdp: Cdp, pages: readonly string[], contexts: readonly string[], log: Log): Promise<void> {
  const left = new Set(pages)
  const closed = Promise.withResolvers<void>()
  const stop = cdp.on('Target.targetDestroyed', ({ targetId }) => {
    if (left.delete(targetId) && left.size === 0) closed.resolve()
  })
  try {
    // A client may have closed some itself.
    const close = (targetId: string) => cdp.send('Target.closeTarget', { targetId }).catch(() => void left.delete(targetId))
    await Promise.all(pages.map(close))
    if (left.size > 0) await within('the old pages to close', CLOSED_MS, closed.promise)
    for (const browserContextId of contexts)
      await cdp.send('Target.disposeBrowserContext', { browserContextId }).catch((err: unknown) => log.debug({ err }, 'a context had been closed'))
  } catch (err) {
    log.warn({ err, pages: [...left] }, 'pages from before the profile are still open')
  } finally {
    stop()
  }
}
