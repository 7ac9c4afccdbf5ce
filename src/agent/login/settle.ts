// Waits for what follows an action: another document, another form, a message, a popup; then until the page is quiet.
import { WaitTimeout, sleep } from '../../base/wait.ts'
import { CdpGone } from '../chromium/cdp.ts'
import type { Settled } from './contract.ts'
import { pulseOf, type Reading } from './read.ts'
import type { Tab } from './tab.ts'
import type { Tabs } from './tabs.ts'
import { DocumentGone } from './world.ts'

/** Nothing has changed and nothing was loaded for so long: a page is quiet. */
const QUIET_MS = 600
/** A page that never is quiet, with a clock or a carousel, is not waited for longer. */
const MAX_QUIET_MS = 5_000
const EVERY_MS = 150
/** A page that did not answer so often in turn, each within some seconds, hangs. */
const MAX_MISSES = 2

/** Waits until the page is not the one that was read, or `limitMs` are over. */
export async function settle(tabs: Tabs, reading: Reading, limitMs: number, signal: AbortSignal): Promise<Settled> {
  const end = performance.now() + limitMs
  let by: Settled['by'] = 'nothing'
  while ((by = await whatHappened(tabs, reading)) === 'nothing') {
    if (performance.now() >= end) return { by, is_quiet: false }
    await sleep(Math.min(EVERY_MS, Math.max(1, end - performance.now())), signal)
  }
  const isQuiet = await quiet(tabs, end - performance.now(), signal)
  if (by !== 'changed') return { by, is_quiet: isQuiet }
  // What happens first is often the first of several: a form vanishes, then the next document comes.
  const later = await whatHappened(tabs, reading)
  return { by: later === 'nothing' ? by : later, is_quiet: isQuiet }
}

async function whatHappened(tabs: Tabs, { tab, documents, popups, pulse }: Reading): Promise<Settled['by']> {
  if (tabs.isOpening || tabs.popups > popups) return tabs.now === tab && !tabs.isOpening ? 'closed' : 'popup'
  if (tabs.now !== tab) return 'closed'
  if (tab.documents !== documents) return 'navigated'
  const now = await pulseNow(tab)
  if (tab.documents !== documents) return 'navigated'
  return typeof now === 'object' && now.text !== pulse ? 'changed' : 'nothing'
}

/** Resolves with whether the page that the login is in then is quiet within `limitMs`, and soon after it has been parsed. */
export async function quiet(tabs: Tabs, limitMs: number, signal: AbortSignal): Promise<boolean> {
  const begin = performance.now()
  const end = begin + limitMs
  let last = ''
  let since = performance.now()
  let misses = 0
  while (performance.now() < end) {
    const tab = tabs.now
    if (!tab) return true
    const pulse = await pulseNow(tab)
    misses = pulse === 'busy' ? misses + 1 : 0
    if (pulse === 'busy') {
      if (misses >= MAX_MISSES) return false
      continue
    }
    const now = `${tab.targetId} ${tab.documents} ${pulse?.text} ${pulse?.body}`
    if (now !== last || !pulse?.isParsed || tab.isLoading || tabs.isOpening) {
      last = now
      since = performance.now()
    } else if (performance.now() - since >= QUIET_MS) return true
    if (pulse?.isParsed && performance.now() - begin >= MAX_QUIET_MS) return false
    await sleep(EVERY_MS, signal)
  }
  return false
}

/** Undefined while a page is between two documents; `busy` when it did not answer in time. */
async function pulseNow(tab: Tab): Promise<Awaited<ReturnType<typeof pulseOf>> | 'busy' | undefined> {
  try {
    return await pulseOf(tab)
  } catch (error) {
    if (error instanceof WaitTimeout) return 'busy'
    if (error instanceof CdpGone || error instanceof DocumentGone) return undefined
    throw error
  }
}
