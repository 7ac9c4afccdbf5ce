// The present tab of a login: the one that was opened for it, or its popup while there is one.
import type { Log } from '../../base/log.ts'
import { resultWithin } from '../../base/wait.ts'
import { CdpGone, type Cdp } from '../chromium/cdp.ts'
import type { Keeper } from '../chromium/keeper.ts'
import { Tab } from './tab.ts'

/** Most tabs: later popups of popups are not followed. */
const MAX_TABS = 5
/** A popup that has just opened is attached to within milliseconds. */
const POPUP_MS = 4_000
/** A new tab opens within milliseconds; a busy machine needs seconds. */
const TAB_MS = 10_000

export class Tabs {
  readonly #browser: Pick<Keeper, 'run'>
  readonly #log: Log
  #cdp: Cdp | undefined
  #unlisten: () => void = () => {}
  /** The tab of the login, then its popups. */
  #tabs: Tab[] = []
  /** Popups that are being attached to. */
  readonly #opening = new Map<string, Promise<void>>()
  /** Number of popups so far. */
  popups = 0

  constructor(browser: Pick<Keeper, 'run'>, log: Log) {
    this.#browser = browser
    this.#log = log
  }

  /** The login's present tab; undefined when there is none. */
  async current(): Promise<Tab | undefined> {
    await resultWithin(POPUP_MS, Promise.all(this.#opening.values()))
    return this.now
  }

  /** The same, without popups that are just opening. */
  get now(): Tab | undefined {
    this.#tabs = this.#tabs.filter((tab) => !tab.isGone)
    return this.#tabs.at(-1)
  }

  get isOpening(): boolean {
    return this.#opening.size > 0
  }

  /** The tab for the next address: the login's own, after its popups are closed; at first, the browser's first page. */
  async take(isNew: boolean): Promise<Tab> {
    const { pipe, firstPage } = await this.#browser.run()
    if (this.#cdp !== pipe) this.#begin(pipe)
    for (const popup of this.#tabs.slice(1)) await this.#close(popup)
    const [known] = this.#tabs.filter((tab) => !tab.isGone)
    const isHung = known !== undefined && !(await known.answers())
    if (known && !isNew && !isHung) return known
    const { targetInfos } = await pipe.send('Target.getTargets', {}, { limitMs: TAB_MS })
    const isThere = known === undefined && !isNew && targetInfos.some(({ targetId, type }) => type === 'page' && targetId === firstPage)
    const targetId = isThere ? firstPage : (await pipe.send('Target.createTarget', { url: 'about:blank' }, { limitMs: TAB_MS })).targetId
    const tab = await Tab.open(pipe, targetId, this.#log)
    if (isHung) await this.#close(known)
    else await known?.end()
    this.#tabs = [tab]
    return tab
  }

  /** Closes all tabs except the login's present one, and detaches from that. */
  async end(): Promise<void> {
    const { pipe } = await this.#browser.run()
    const kept = this.#cdp === pipe ? await this.current() : undefined
    const tabs = this.#tabs
    this.#unlisten()
    this.#cdp = undefined
    this.#tabs = []
    await Promise.all(tabs.map((tab) => tab.end()))
    const { targetInfos } = await pipe.send('Target.getTargets', {}, { limitMs: TAB_MS })
    const pages = targetInfos.filter(({ type }) => type === 'page').map(({ targetId }) => targetId)
    // The browser would end with its last tab.
    const last = pages.find((id) => id === kept?.targetId) ?? pages[0]
    const close = (targetId: string) => pipe.send('Target.closeTarget', { targetId }, { limitMs: TAB_MS })
    const closed = await Promise.allSettled(pages.filter((id) => id !== last).map(close))
    for (const one of closed) if (one.status === 'rejected') this.#log.debug({ err: one.reason as unknown }, 'a tab had been closed')
  }

  #begin(cdp: Cdp): void {
    this.#unlisten()
    this.#cdp = cdp
    this.#tabs = []
    // Chromium reports pages because the keeper has enabled it (chromium/painted.ts).
    this.#unlisten = cdp.on('Target.targetCreated', ({ targetInfo: { type, targetId, openerId } }) => {
      if (type !== 'page' || openerId === undefined || !this.#tabs.some((tab) => tab.targetId === openerId)) return
      if (this.#tabs.length + this.#opening.size >= MAX_TABS) return
      this.#opening.set(targetId, this.#attach(cdp, targetId))
    })
  }

  async #attach(cdp: Cdp, targetId: string): Promise<void> {
    try {
      const tab = await Tab.open(cdp, targetId, this.#log)
      if (this.#cdp !== cdp) return await tab.end()
      this.#tabs.push(tab)
      this.popups++
    } catch (err) {
      if (!(err instanceof CdpGone)) this.#log.warn({ err }, 'a popup of a login cannot be watched')
    } finally {
      this.#opening.delete(targetId)
    }
  }

  async #close(popup: Tab): Promise<void> {
    this.#tabs = this.#tabs.filter((tab) => tab !== popup)
    if (popup.isGone) return
    try {
      await this.#cdp?.send('Target.closeTarget', { targetId: popup.targetId }, { limitMs: TAB_MS })
    } catch (err) {
      this.#log.debug({ err }, 'a popup had been closed')
    }
    popup.session.drop()
  }
}
