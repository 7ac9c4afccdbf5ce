// The login in the browser: one call at a time, about its present tab and the last read.
import type { Log } from '../../base/log.ts'
import { Mutex } from '../../base/mutex.ts'
import { resultWithin, WaitTimeout } from '../../base/wait.ts'
import { fault } from '../../http/fault.ts'
import { CdpGone, CdpRefusal } from '../chromium/cdp.ts'
import type { Keeper } from '../chromium/keeper.ts'
import type { Secrets } from '../../base/redact/redact.ts'
import type { EventBuffer } from '../telemetry/event-buffer.ts'
import { act } from './act.ts'
import type { Acted, Action, PageModel, Settled } from './contract.ts'
import { readMarks, type Marks } from './marks.ts'
import { readTab, type Reading } from './read.ts'
import { quiet, settle } from './settle.ts'
import type { Tab } from './tab.ts'
import { Tabs } from './tabs.ts'
import { DocumentGone } from './world.ts'

/** Limit until the first byte of a page. */
const NAVIGATE_MS = 25_000
/** Limit from then until it is parsed and quiet. */
const PARSED_MS = 10_000
/** Limit on an answer that nobody needs. */
const STOP_MS = 2_000
/** Number of reads: a document may change while it is read, and is then read again. */
const READS = 3
/** Events about typed values come up to this much later. */
const LATE_MS = 1_000
/** A longer value is masked in events in pieces of this length. */
const PIECE = 1_024

/** Logging in with the browser. The fake driver has its own implementation. */
export interface Login {
  open(url: string, isNew: boolean, signal: AbortSignal): Promise<{ error: string | null }>
  read(signal: AbortSignal): Promise<PageModel>
  act(actions: readonly Action[], hosts: readonly string[], signal: AbortSignal): Promise<Acted>
  settle(limitMs: number, signal: AbortSignal): Promise<Settled>
  marks(hosts: readonly string[], signal: AbortSignal): Promise<Marks>
  end(signal: AbortSignal): Promise<void>
}

export interface LoginParts {
  browser: Pick<Keeper, 'run' | 'painted'>
  secrets: Pick<Secrets, 'learn'>
  eventBuffer: Pick<EventBuffer, 'withhold'>
  /** Receives the typed passwords, which no saved data may contain. */
  passwords: Set<string>
  log: Log
}

/** Chromium is not used before the first call. */
export function makeLogin({ browser, secrets, eventBuffer, passwords, log }: LoginParts): Login {
  const turns = new Mutex()
  const tabs = new Tabs(browser, log)
  let reading: Reading | undefined
  /** The password fields of that reading. */
  let hidden = new Set<string>()
  let generation = 0

  const learn = (value: string) => {
    for (let at = 0; at < value.length; at += PIECE) secrets.learn(value.slice(at, at + PIECE), { source: 'login' })
  }

  async function currentTab(): Promise<Tab> {
    // Before anything was opened: the initial page of the session.
    return (await tabs.current()) ?? tabs.take(false)
  }

  /** Runs `work` after all earlier calls. */
  const turn = <T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> =>
    turns.run(async () => {
      try {
        return await work()
      } catch (error) {
        if (error instanceof WaitTimeout) throw fault.unavailable('the page does not answer', error)
        if (error instanceof CdpGone || error instanceof DocumentGone || error instanceof CdpRefusal) throw fault.unavailable('the page is gone', error)
        throw error
      }
    }, signal)

  async function readNow(signal: AbortSignal): Promise<PageModel> {
    for (let tries = 1; ; tries++) {
      const tab = await currentTab()
      try {
        const read = await readTab(tab, ++generation, tabs.popups, log)
        if ((await Promise.all(read.reading.frames.map(({ state }) => tab.isByWorker(state)))).includes(true)) {
          if (tries >= READS) throw fault.unavailable('the page does not come from its site')
          await tab.reload()
          await quiet(tabs, PARSED_MS, signal)
          continue
        }
        reading = read.reading
        hidden = new Set(read.model.controls.filter(({ type }) => type === 'password').map(({ ref }) => ref))
        return read.model
      } catch (error) {
        const isBetween = error instanceof DocumentGone || error instanceof CdpGone || error instanceof CdpRefusal
        if (!isBetween || tries >= READS) throw error
      }
    }
  }

  return {
    open: (url, isNew, signal) =>
      turn(async () => {
        reading = undefined
        const tab = await tabs.take(isNew)
        tab.dialogs = []
        const { session } = tab
        await session.send('Page.bringToFront', {}, { limitMs: PARSED_MS })
        try {
          const { errorText } = await session.send('Page.navigate', { url }, { limitMs: NAVIGATE_MS, signal })
          await quiet(tabs, PARSED_MS, signal)
          return { error: errorText?.slice(0, 100) ?? null }
        } catch (error) {
          if (!(error instanceof WaitTimeout)) throw error
          // A page that hangs does not answer this either. The next address gets a new tab.
          await resultWithin(STOP_MS, session.send('Page.stopLoading', {}, { limitMs: PARSED_MS }))
          return { error: 'net::ERR_TIMED_OUT' }
        }
      }, signal),
    read: (signal) => turn(() => readNow(signal), signal),
    act: (actions, hosts, signal) =>
      turn(async () => {
        const tab = await currentTab()
        if (!reading || reading.tab !== tab || tab.isLeaving) return { done: 0, problem: 'gone', host: null }
        for (const action of actions) if (action.kind === 'fill' && hidden.has(action.ref)) passwords.add(action.value)
        tab.dialogs = []
        const resume = eventBuffer.withhold(['interaction', 'screenshot'])
        try {
          await tab.session.send('Page.bringToFront', {}, { limitMs: PARSED_MS })
          await browser.painted(signal)
          return await act(reading, actions, hosts, learn, signal)
        } finally {
          setTimeout(resume, LATE_MS).unref()
        }
      }, signal),
    settle: (limitMs, signal) =>
      turn(async () => {
        if (reading) return settle(tabs, reading, limitMs, signal)
        // There is nothing to compare with: the page was just opened.
        await quiet(tabs, limitMs, signal)
        return { by: 'nothing' }
      }, signal),
    marks: (hosts, signal) =>
      turn(async () => {
        const { pipe } = await browser.run()
        return readMarks(pipe, hosts)
      }, signal),
    end: (signal) =>
      turn(async () => {
        reading = undefined
        await tabs.end()
      }, signal),
  }
}
