// Opens a profile in the running Chromium like a second start: over the socket on which a new process sends its command line to the running one
// (chrome/browser/process_singleton_posix.cc).
import { connect } from 'node:net'
import { until, within } from '../../base/wait.ts'
import { CdpGone, type Cdp } from './cdp.ts'
import type { Log } from '../../base/log.ts'
import { read } from './unseen.ts'

/** Timeout for a command line. Chromium accepts it within milliseconds. */
const TAKEN_MS = 5_000
/** Longer than any of its answers, in bytes. */
const MAX_ANSWER = 100
/** A profile of 50 MB opened in 0.2 s alone; Chromium on a busy machine takes as long for it as for a start. */
const OPENED_MS = 60_000
/** A page that is loaded answers within milliseconds, unless it hangs. */
const FRONT_MS = 5_000
/** Most restored tabs that are loaded here, in some ten milliseconds each. Chromium loads the others later. */
const MAX_TABS = 20
/** A page closes within milliseconds. Chromium ends a page that hangs after about a second. */
const CLOSED_MS = 5_000

/** Sends a command line to the Chromium that has `socket`. @throws when it does not accept it */
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

/** A profile that Chromium has opened. */
interface Opened {
  /** A page of it. */
  page: string
  /** Resolves when the earlier pages have been closed, and restored tabs have loaded; never rejects. No client may connect to Chromium before. */
  settled: Promise<void>
}

/**
 * Opens the profile in `folder`, a folder of the user data directory, in the running Chromium, and resolves when it has a page. The default context is then the
 * profile's: Chromium answers commands for it after it has read the cookies. `urls` are opened; without any, the profile's own tabs. @throws when Chromium
 * ends, or does not open it
 */
export async function moveToProfile(cdp: Cdp, socket: string, folder: string, urls: readonly string[], log: Log): Promise<Opened> {
  const before = await cdp.send('Target.getBrowserContexts', {})
  const old = await pagesOf(cdp)
  const openedPage = async () => {
    const { defaultBrowserContextId: now } = await cdp.send('Target.getBrowserContexts', {})
    if (now === before.defaultBrowserContextId) return undefined
    return (await pagesOf(cdp)).find(({ browserContextId }) => browserContextId === now)
  }
  await handOver(socket, [`--profile-directory=${folder}`, '--start-maximized', ...urls])
  const { targetId: page, browserContextId: context } = await until('the window of the profile', OPENED_MS, openedPage, { everyMs: 5 })
  void readCookies(cdp, page).catch((err: unknown) => log.debug({ err }, 'the cookies of the profile are read later'))
  const closed = closeOld(
    cdp,
    old.map(({ targetId }) => targetId),
    before.browserContextIds,
    log,
  )
  const loaded = urls.length === 0 && loadTabs(cdp, context, log).catch((err: unknown) => log.warn({ err }, 'restored tabs load later'))
  return { page, settled: Promise.all([closed, loaded]).then(() => {}) }
}

/** Makes Chromium read the cookies now, and not when a client or a page first needs one. It is not awaited: meanwhile the earlier pages are closed. */
async function readCookies(cdp: Cdp, page: string): Promise<void> {
  await using session = await cdp.session(page)
  // The answer is empty on purpose: there may be many cookies, and only the reading counts.
  await session.send('Network.getCookies', { urls: ['http://cookies.invalid/'] })
}

/**
 * Makes Chromium load the tabs that it has restored in the background. It would start three seconds later, and until then a client's commands to such a tab get
 * no answer: Playwright waits for them when it connects. A tab loads when it comes to the front; then the earlier front tab comes back.
 */
async function loadTabs(cdp: Cdp, context: string | undefined, log: Log): Promise<void> {
  const tabs = (await pagesOf(cdp)).filter(({ browserContextId }) => browserContextId === context).map(({ targetId }) => targetId)
  if (tabs.length < 2) return
  const asked = tabs.map(async (tab) => {
    await using session = await cdp.session(tab)
    if ((await read(session, 'document.visibilityState', { limitMs: FRONT_MS })) !== 'visible') throw new Error('it is in the background')
    return tab
  })
  // A tab that is not loaded does not answer. The first answer comes from the tab in front.
  const front = await within('the tab in front to answer', FRONT_MS, Promise.any(asked))
  for (const targetId of [...tabs.filter((tab) => tab !== front).slice(0, MAX_TABS), front])
    await cdp.send('Target.activateTarget', { targetId }).catch((err: unknown) => log.debug({ err }, 'a tab was closed'))
  const answers = async (tab: string) => {
    await using session = await cdp.session(tab)
    // The page may just be replaced by the one that loads.
    return session.send('Runtime.evaluate', { expression: '1' }, { limitMs: FRONT_MS }).then(
      () => true,
      (error: unknown) => !(error instanceof CdpGone),
    )
  }
  await Promise.all(tabs.map((tab) => until('a restored tab to answer', FRONT_MS, () => answers(tab), { everyMs: 10 })))
}

const pagesOf = async (cdp: Cdp) => (await cdp.send('Target.getTargets', {})).targetInfos.filter(({ type }) => type === 'page')

/** Closes everything that was open in the earlier profile. Call it after the new window exists: Chromium ends with its last window. */
async function closeOld(cdp: Cdp, pages: readonly string[], contexts: readonly string[], log: Log): Promise<void> {
  const left = new Set(pages)
  const closed = Promise.withResolvers<void>()
  const stop = cdp.on('Target.targetDestroyed', ({ targetId }) => {
    if (left.delete(targetId) && left.size === 0) closed.resolve()
  })
  try {
    // A client may already have closed some.
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
