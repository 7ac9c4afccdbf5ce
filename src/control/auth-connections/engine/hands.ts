// Carries out what the rules decide in the browser of a flow: reads, fills, presses, with limits and few retries. Values pass through here and are kept nowhere.
import type { Action, PageModel, Ref } from '../../../agent/login/contract.ts'
import { BrowserGone, type LoginBrowser } from './browser.ts'
import type { Decision } from './decision.ts'
import { FlowFailure, type Tools } from './work.ts'

/** Until a page that was opened is quiet; until something follows a form that was sent. */
const OPENED_MS = 5000
const ANSWERED_MS = 20_000
const READ_TRIES = 3
const READ_AGAIN_MS = 1000

type FillDecision = Extract<Decision, { do: 'fill' }>
/** `sent`: the form was sent, as far as the agent can tell. `typed`: its fields were filled, and it was not sent. */
export type Filled = 'sent' | 'typed' | 'nothing'

/** The browser of a flow, whose failures have a code for callers. Their own texts may quote what was sent. */
export function guarded(browser: LoginBrowser, signal: AbortSignal): LoginBrowser {
  const ask = async <T>(what: string, answer: Promise<T>): Promise<T> => {
    try {
      return await answer
    } catch (error) {
      if (error instanceof BrowserGone) throw error
      signal.throwIfAborted()
      throw new FlowFailure('browser_error', `the browser could not ${what}`)
    }
  }
  return {
    id: browser.id,
    open: (url, how, by) => ask('open a page', browser.open(url, how, by)),
    read: (by) => ask('read a page', browser.read(by)),
    act: (actions, hosts, by) => ask('act on a page', browser.act(actions, hosts, by)),
    settle: (limitMs, by) => ask('wait for a page', browser.settle(limitMs, by)),
    marks: (hosts, by) => ask('list its cookies', browser.marks(hosts, by)),
    end: (by) => ask('end the login', browser.end(by)),
  }
}

export class Hands {
  readonly browser: LoginBrowser
  readonly #clock: Tools['clock']
  readonly #signal: AbortSignal

  constructor(browser: LoginBrowser, clock: Tools['clock'], signal: AbortSignal) {
    this.browser = guarded(browser, signal)
    this.#clock = clock
    this.#signal = signal
  }

  async open(url: string): Promise<void> {
    // Chromium's error is part of the page that is read next.
    await this.browser.open(url, { newTab: false }, this.#signal)
    await this.browser.settle(OPENED_MS, this.#signal)
  }

  /** Pages that change while they are read are read again. */
  async read(): Promise<PageModel> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.browser.read(this.#signal)
      } catch (error) {
        if (error instanceof BrowserGone || this.#signal.aborted) throw error
        if (tries === READ_TRIES) throw error
        await this.#clock.sleep(READ_AGAIN_MS, this.#signal)
      }
    }
  }

  async press(refs: readonly Ref[]): Promise<void> {
    await this.browser.act(
      refs.map((ref) => ({ kind: 'click', ref })),
      [],
      this.#signal,
    )
    // A control that was gone or covered is seen again when the page is read.
    await this.browser.settle(ANSWERED_MS, this.#signal)
  }

  /** Types the values and sends the form. @throws FlowFailure for a host that may get no values */
  async fill({ fills, tick, submit, isHeld }: FillDecision, values: readonly Action[], hosts: readonly string[]): Promise<Filled> {
    const actions: Action[] = [...values, ...tick.map((ref): Action => ({ kind: 'check', ref, checked: true }))]
    const last = fills.findLast(({ field }) => field.role !== 'checkbox' && field.role !== 'select')?.field
    const enter: Action | undefined = last && { kind: 'press', ref: last.boxes?.at(-1) ?? last.ref, key: 'Enter' }
    const send: Action | undefined = isHeld ? undefined : submit === undefined ? enter : { kind: 'click', ref: submit }
    const all = send ? [...actions, send] : actions
    if (all.length === 0) return 'nothing'
    const { done, problem, host } = await this.browser.act(all, hosts, this.#signal)
    if (problem === 'host')
      throw new FlowFailure(
        'domain_not_allowed',
        `nothing was typed at ${host || 'a page without a host'}, which is not among the allowed domains; add it to allowed_domains if it belongs to the site`,
      )
    if (problem === null) return 'sent'
    if (done < values.length) return 'nothing'
    // A button that has gone after the fields were filled: the page has sent them by itself.
    if (problem === 'gone') return 'sent'
    if (!enter || send === undefined || send.kind === 'press') return 'typed'
    // The button cannot be pressed, so nothing was sent yet: Enter, as a person would.
    return (await this.browser.act([enter], hosts, this.#signal)).problem === null ? 'sent' : 'typed'
  }

  async settle(): Promise<void> {
    await this.browser.settle(ANSWERED_MS, this.#signal)
  }
}
