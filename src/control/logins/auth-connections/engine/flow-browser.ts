// Carries out decisions in the browser of a flow: reads, fills, presses, with limits and few retries. Values pass through here and are not stored.
import type { Action, PageModel, Ref } from '../../../../agent/login/contract.ts'
import { CallFailed } from '../../../../http/client.ts'
import { BrowserGone, type LoginBrowser } from './browser.ts'
import type { Decision } from './decision.ts'
import { FlowFailure, type Tools } from './work.ts'

/** Limit on the wait for a site's reaction to a form. */
const ANSWERED_MS = 20_000
/** Many pages send a code themselves after its last character. The button is not pressed then: that would send the code twice. */
const SELF_SENT_MS = 800
/** Pages that validate typed values enable their button a moment later. */
const ENABLED_MS = 500
const READ_TRIES = 3
const READ_AGAIN_MS = 1000

type FillDecision = Extract<Decision, { do: 'fill' }>
/**
 * `sent`: the form was sent, as far as the agent can tell. `typed`: it was not sent, but its fields were filled, or at least the page may have its password.
 */
export type Filled = 'sent' | 'typed' | 'nothing'

/** The loggable part of an error: never its text, which may contain sent values or parts of a page. */
const briefly = (error: unknown): object =>
  error instanceof CallFailed ? { error: error.name, route: error.route, status: error.status } : { error: error instanceof Error ? error.name : 'unknown' }

/** The browser of a flow, with error codes for callers. The errors' own texts may contain sent values. */
export function guarded(browser: LoginBrowser, log: Tools['log'], signal: AbortSignal): LoginBrowser {
  const ask = async <T>(what: string, answer: Promise<T>): Promise<T> => {
    const began = performance.now()
    try {
      return await answer
    } catch (error) {
      if (error instanceof BrowserGone) throw error
      signal.throwIfAborted()
      log.warn({ browser: browser.id, ...briefly(error) }, `the browser of a login could not ${what}`)
      throw new FlowFailure('browser_error', `the browser could not ${what}`)
    } finally {
      log.debug({ browser: browser.id, ms: Math.round(performance.now() - began) }, `login: ${what}`)
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

export class FlowBrowser {
  readonly browser: LoginBrowser
  readonly #clock: Tools['clock']
  readonly #signal: AbortSignal

  constructor(browser: LoginBrowser, { clock, log }: Pick<Tools, 'clock' | 'log'>, signal: AbortSignal) {
    this.browser = guarded(browser, log, signal)
    this.#clock = clock
    this.#signal = signal
  }

  async open(url: string): Promise<void> {
    // The agent waits until the page is quiet. Chromium's error is part of the next page that is read.
    await this.browser.open(url, { newTab: false }, this.#signal)
  }

  /** A page that changes while it is read is read again. */
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
    // A control that was missing or covered is found again when the page is read.
    await this.browser.settle(ANSWERED_MS, this.#signal)
  }

  /** Types the values and sends the form. @throws FlowFailure for a host that may not get values */
  async fill({ fills, tick, submit, isHeld }: FillDecision, values: readonly Action[], hosts: readonly string[]): Promise<Filled> {
    const actions: Action[] = [...values, ...tick.map((ref): Action => ({ kind: 'check', ref, checked: true }))]
    const last = fills.findLast(({ field }) => field.role !== 'checkbox' && field.role !== 'select')?.field
    const enter: Action | undefined = last && { kind: 'press', ref: last.boxes?.at(-1) ?? last.ref, key: 'Enter' }
    const send: Action | undefined = isHeld ? undefined : submit === undefined ? enter : { kind: 'click', ref: submit }
    const all = send ? [...actions, send] : actions
    if (all.length === 0) return 'nothing'
    const isCode = send !== undefined && fills.some(({ field: { role } }) => role === 'code' || role === 'totp_code')
    const acted = await this.browser.act(isCode ? actions : all, hosts, this.#signal)
    const { done, typed = true } = acted
    let { problem, host } = acted
    if (isCode && problem === null) {
      const { by } = await this.browser.settle(SELF_SENT_MS, this.#signal)
      if (by === 'navigated' || by === 'popup' || by === 'closed') return 'sent'
      ;({ problem, host } = await this.browser.act([send], hosts, this.#signal))
    }
    if (problem === 'host')
      throw new FlowFailure(
        'domain_not_allowed',
        `nothing was typed at ${host || 'a page without a host'}, which is not among the allowed domains; add it to allowed_domains if it belongs to the site`,
      )
    if (problem === null) return 'sent'
    if (done < values.length) {
      // Each fill has one action. The page may have the password even if its field, or a later one, could not be filled.
      const password = fills.findIndex(({ field }) => field.role === 'password')
      return password !== -1 && (password < done || (password === done && typed)) ? 'typed' : 'nothing'
    }
    // If the button disappears after the fields were filled, the page has sent them itself.
    if (problem === 'gone') return 'sent'
    if (!enter || send === undefined || send.kind === 'press') return 'typed'
    // The button cannot be pressed, so nothing was sent yet, unless the page navigates itself. If the page shows nothing new, press it again; new content could
    // be an answer. Then press Enter, as a person would.
    const { by } = await this.browser.settle(ENABLED_MS, this.#signal)
    if (by === 'navigated' || by === 'popup' || by === 'closed') return 'sent'
    if (by === 'nothing' && (await this.browser.act([send], hosts, this.#signal)).problem === null) return 'sent'
    return (await this.browser.act([enter], hosts, this.#signal)).problem === null ? 'sent' : 'typed'
  }

  /** Waits for a reaction to a form. Returns whether there was one. */
  async settle(): Promise<boolean> {
    return (await this.browser.settle(ANSWERED_MS, this.#signal)).by !== 'nothing'
  }
}
