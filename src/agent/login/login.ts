// The login in the browser: one call at a time, about the tab that it is in and what was read there last.
import type { z } from 'zod'
import type { Log } from '../../base/log.ts'
import { Mutex } from '../../base/mutex.ts'
import { resultWithin, WaitTimeout } from '../../base/wait.ts'
import { fault } from '../../http/fault.ts'
import { CdpGone, CdpRefusal } from '../chromium/cdp.ts'
import type { Browser } from '../chromium/keeper.ts'
import type { Secrets } from '../../base/redact/redact.ts'
import type { EventBuffer } from '../telemetry/event-buffer.ts'
import { act } from './act.ts'
import type { Acted, Action, login, PageModel, Settled } from './contract.ts'
import { readMarks } from './marks.ts'
import { readTab, type Reading } from './read.ts'
import { quiet, settle } from './settle.ts'
import type { Tab } from './tab.ts'
import { Tabs } from './tabs.ts'
import { DocumentGone } from './world.ts'

/** Until the first byte of a page. */
const NAVIGATE_MS = 25_000
/** From then until it has been parsed and is quiet. */
const PARSED_MS = 10_000
/** For an answer that nobody needs. */
const STOP_MS = 2_000
/** A document may change while it is read. Then it is read again. */
const READS = 3
/** Events of what was typed come a moment later. */
const LATE_MS = 1_000
/** A longer value is kept out of events in pieces: so much of one is looked for. */
const PIECE = 1_024

type Marks = z.output<(typeof login.readLoginMarks.reply)['schema']>

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
  browser: Pick<Browser, 'run' | 'painted'>
  secrets: Pick<Secrets, 'learn'>
  eventBuffer: Pick<EventBuffer, 'withhold'>
  /** Gets the passwords that are typed, which nothing that is saved may have. */
  passwords: Set<string>
  log: Log
}

/** Nothing is asked of Chromium before the first call. */
export function makeLogin({ browser, secrets, eventBuffer, passwords, log }: LoginParts): Login {
  const turns = new Mutex()
  const tabs = new Tabs(browser, log)
  let reading: Reading | undefined
  /** The fields for passwords of that reading. */
  let hidden = new Set<string>()
  let generation = 0

  const learn = (value: string) => {
    for (let at = 0; at < value.length; at += PIECE) secrets.learn(value.slice(at, at + PIECE), { source: 'login' })
  }

  async function currentTab(): Promise<Tab> {
    // Before anything was opened: the page that the session began with.
    return (await tabs.current()) ?? tabs.take(false)
  }

  /** Runs `work` when the calls before are done. */
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
        const read = await readTab(tab, ++generation, { popups: tabs.popups, isPopup: tabs.isPopup(tab), log })
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
          // A page that hangs does not answer this either. The next one gets a tab of its own.
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
          return await act(reading, actions, hosts, { learn }, signal)
        } finally {
          setTimeout(resume, LATE_MS).unref()
        }
      }, signal),
    settle: (limitMs, signal) =>
      turn(async () => {
        // Nothing to compare with: the page that was just opened.
        if (!reading) return { by: 'nothing', is_quiet: await quiet(tabs, performance.now() + limitMs, signal) }
        return settle(tabs, reading, limitMs, signal)
      }, signal),
    marks: (hosts, signal) =>
      turn(async () => {
        const { pipe } = await browser.run()
        return readMarks(pipe, await tabs.current(), hosts)
      }, signal),
    end: (signal) =>
      turn(async () => {
        reading = undefined
        await tabs.end()
      }, signal),
  }
}
