// Waits for the reaction to an action: another document, another form, a message, a popup; then until the page is quiet.
import { WaitTimeout, sleep } from '../../base/wait.ts'
import { CdpGone } from '../chromium/cdp.ts'
import type { Settled } from './contract.ts'
import { pulseOf, type Reading } from './read.ts'
import type { Tab } from './tab.ts'
import type { Tabs } from './tabs.ts'
import { DocumentGone } from './world.ts'

/** A page is quiet when nothing has changed or loaded for this time. */
const QUIET_MS = 600
/** Limit on this wait for a page that is never quiet, for example with a clock or a carousel. */
const MAX_QUIET_MS = 5_000
const EVERY_MS = 150
/** After this many missing answers in a row, each after some seconds, the page hangs. */
const MAX_MISSES = 2

/** Waits until the page differs from the last read, or for `limitMs`. */
export async function settle(tabs: Tabs, reading: Reading, limitMs: number, signal: AbortSignal): Promise<Settled> {
  const end = performance.now() + limitMs
  let by: Settled['by'] = 'nothing'
  while ((by = await whatHappened(tabs, reading)) === 'nothing') {
    if (performance.now() >= end) return { by }
    await sleep(Math.min(EVERY_MS, Math.max(1, end - performance.now())), signal)
  }
  await quiet(tabs, end - performance.now(), signal)
  if (by !== 'changed') return { by }
  // The first reaction is often the first of several: a form vanishes, then the next document comes.
  const later = await whatHappened(tabs, reading)
  return { by: later === 'nothing' ? by : later }
}

async function whatHappened(tabs: Tabs, { tab, documents, popups, pulse }: Reading): Promise<Settled['by']> {
  if (tabs.isOpening || tabs.popups > popups) return tabs.now === tab && !tabs.isOpening ? 'closed' : 'popup'
  if (tabs.now !== tab) return 'closed'
  if (tab.documents !== documents) return 'navigated'
  const now = await pulseNow(tab)
  if (tab.documents !== documents) return 'navigated'
  return typeof now === 'object' && now.text !== pulse ? 'changed' : 'nothing'
}

/** Waits until the login's page is quiet, at most `limitMs`, and only for a short time after it has been parsed. */
export async function quiet(tabs: Tabs, limitMs: number, signal: AbortSignal): Promise<void> {
  const begin = performance.now()
  const end = begin + limitMs
  let last = ''
  let since = performance.now()
  let misses = 0
  while (performance.now() < end) {
    const tab = tabs.now
    if (!tab) return
    const pulse = await pulseNow(tab)
    misses = pulse === 'busy' ? misses + 1 : 0
    if (pulse === 'busy') {
      if (misses >= MAX_MISSES) return
      continue
    }
    const now = `${tab.targetId} ${tab.documents} ${pulse?.text} ${pulse?.body}`
    if (now !== last || !pulse?.isParsed || tab.isLoading || tabs.isOpening) {
      last = now
      since = performance.now()
    } else if (performance.now() - since >= QUIET_MS) return
    if (pulse?.isParsed && performance.now() - begin >= MAX_QUIET_MS) return
    await sleep(EVERY_MS, signal)
  }
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
