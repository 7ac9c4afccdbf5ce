// Works on one flow, under its claim: reads the page, decides, acts, until the flow has ended. Before it acts, it stores everything in its memory that it needs
// later.
import { Fault } from '../../../../http/fault.ts'
import { MAX_HOSTS, type PageModel } from '../../../../agent/login/contract.ts'
import type { Learned } from '../flow.ts'
import { BrowserGone } from './browser.ts'
import { decide } from './decide.ts'
import type { Decision, Known } from './decision.ts'
import { endingOf } from './ending.ts'
import { FlowBrowser } from './flow-browser.ts'
import { allowedHosts } from './hosts.ts'
import { SURE, type Interpretation, type PageContext } from './interpretation.ts'
import { forNewBrowser, readMemory, type Ending, type Memory } from './memory.ts'
import { candidatesOf, homeOf, isAttended, wishOf } from './places.ts'
import { askPerson, takeAnswer } from './person.ts'
import { keepAddress, saveAndFinish } from './saving.ts'
import { SecretResolver } from './secrets.ts'
import { stablePath } from './signature.ts'
import { actionsOf, freshCode, hostsForValues, storedValues, versionSent } from './values.ts'
import { confirm, probe } from './verify.ts'
import { Expired, FlowFailure, NotOurs, type Connection, type Flow, type Tools } from './work.ts'

/** Most browsers of a flow, one after the other. */
const MAX_BROWSERS = 3
const MAX_MODEL_CALLS = 5
/** Limit on ending a browser without saving its profile. */
const END_MS = 60_000
const END_TRIES = 3

/** Works on a flow until it has ended, `stop` aborts, or its state cannot be stored: then any replica can continue once the claim is released. Never throws. */
export async function workOn(flow: Flow, tools: Tools, stop: AbortSignal): Promise<void> {
  const worker = new Worker(flow, tools, stop)
  try {
    await worker.run()
  } catch (error) {
    if (stop.aborted) return
    // Never log the error's text: it may contain sent values.
    tools.log.error({ flow: flow.id, error: error instanceof Error ? error.name : 'unknown' }, 'work on a login was given up')
  }
}

class Worker {
  readonly #flow: Flow
  readonly #tools: Tools
  readonly #stop: AbortSignal
  /** Also aborts when the time of the flow is over. */
  readonly #signal: AbortSignal
  readonly #deadline: AbortSignal
  #memory: Memory
  #connection!: Connection
  #secrets = new SecretResolver(undefined, {})
  #browserId: string | undefined
  #flowBrowser: FlowBrowser | undefined

  constructor(flow: Flow, tools: Tools, stop: AbortSignal) {
    this.#flow = flow
    this.#tools = tools
    this.#stop = stop
    this.#deadline = AbortSignal.timeout(Math.max(0, flow.expires_at.getTime() - tools.clock.now()))
    this.#signal = AbortSignal.any([stop, this.#deadline])
    this.#memory = readMemory(flow.memory)
    this.#browserId = flow.browser_id ?? undefined
  }

  async run(): Promise<void> {
    try {
      await this.#work()
    } catch (error) {
      if (this.#stop.aborted) throw error
      if (error instanceof NotOurs) return this.#leave()
      // After the profile is saved, the login is a success: the next worker does the rest.
      if (this.#memory.success?.isSaved) throw error
      await this.#end(this.#endingOf(error)).catch((failed: unknown) => {
        if (failed instanceof NotOurs) return this.#leave()
        throw failed
      })
    }
  }

  async #work(): Promise<void> {
    const connection = await this.#tools.flows.connectionOf(this.#flow)
    if (!connection) throw new NotOurs('its connection is gone')
    this.#connection = connection
    if (this.#memory.credential === undefined) this.#memory.credential = connection.credential_id
    // If the end was decided before a restart, carry it out first.
    if (this.#memory.ending) return this.#end(this.#memory.ending)
    const typed = await this.#tools.flows.openTyped(this.#flow.id)
    if (this.#memory.success) {
      this.#secrets = new SecretResolver(undefined, typed)
      return this.#save()
    }
    this.#assertTime()
    const isCheck = this.#flow.type === 'health_check'
    this.#secrets = new SecretResolver(isCheck ? undefined : await storedValues(connection, this.#flow, this.#tools, this.#signal), typed)
    for (;;) {
      try {
        await this.#browser()
        return isCheck ? await this.#check() : await this.#login()
      } catch (error) {
        if (!(error instanceof BrowserGone)) throw error
        this.#tools.log.info({ flow: this.#flow.id }, 'the browser of a login has ended')
        if (this.#memory.hasSentPassword) throw new FlowFailure('browser_error', 'the browser ended after a password was sent')
        if (this.#memory.browsers >= MAX_BROWSERS) throw new FlowFailure('browser_error', `the browser ended ${MAX_BROWSERS} times`)
        this.#flowBrowser = undefined
        this.#browserId = undefined
        this.#memory = forNewBrowser(this.#memory)
      }
    }
  }

  /** The flow's present browser, or a new one. */
  async #browser(): Promise<FlowBrowser> {
    const { browsers } = this.#tools
    if (this.#flowBrowser) return this.#flowBrowser
    if (this.#browserId !== undefined) {
      const found = await browsers.find(this.#browserId)
      if (!found) throw new BrowserGone('the browser has ended')
      return (this.#flowBrowser = new FlowBrowser(found, this.#tools, this.#signal))
    }
    this.#memory.browsers++
    await this.#remember()
    const made = await browsers.make(wishOf(this.#flow, this.#connection), this.#signal).catch((error: unknown) => {
      throw error instanceof Fault ? new FlowFailure('browser_error', error.message) : error
    })
    this.#browserId = made.browser.id
    const { replayId, capturesTelemetry } = made
    const isBound = await this.#tools.flows.bind(this.#flow.id, {
      browserId: made.browser.id,
      telemetryCaptured: capturesTelemetry,
      ...(replayId !== undefined && { replayId }),
    })
    if (!isBound) throw new NotOurs('the flow has ended')
    return (this.#flowBrowser = new FlowBrowser(made.browser, this.#tools, this.#signal))
  }

  async #login(): Promise<void> {
    const { flows } = this.#tools
    if (this.#flow.pause) {
      const answer = await flows.takeAnswer(this.#flow.id)
      if (answer) await takeAnswer(answer, this.#flow.pause, this.#memory, this.#secrets, this.#person())
    }
    if (!this.#memory.cookies) this.#memory.cookies = await this.#cookies()
    if (!this.#memory.hasChecked && this.#connection.status === 'AUTHENTICATED') {
      const { verdict, page } = await this.#probe(this.#connection.post_login_url ?? undefined)
      this.#memory.hasChecked = true
      if (verdict === 'AUTHENTICATED') return this.#succeed(page.url, this.#connection.learned ?? undefined)
      await this.#remember()
    }
    for (;;) {
      this.#assertTime()
      const page = await this.#flowBrowser!.read()
      const seen = await this.#interpret(page)
      const { decision, memory } = decide(this.#memory, seen, page, this.#known())
      this.#memory = memory
      const logged = { host: this.#secrets.scrubber.scrub(page.host), kind: seen.kind, confidence: seen.confidence, next: decision.do }
      this.#tools.log.debug({ flow: this.#flow.id, ...logged }, 'a page of a login')
      if (await this.#carryOut(decision, page, seen)) return
    }
  }

  /** Carries out a decision. Returns whether the flow has ended. */
  async #carryOut(decision: Decision, page: PageModel, seen: Interpretation): Promise<boolean> {
    const flowBrowser = this.#flowBrowser!
    if (decision.do === 'fail') throw new FlowFailure(decision.code, decision.message, decision)
    if (decision.do === 'fill') return this.#fill(decision, page)
    await this.#remember()
    switch (decision.do) {
      case 'open':
        await this.#isOurs(this.#tools.flows.discovering(this.#flow.id))
        await flowBrowser.open(decision.url)
        return false
      case 'press':
        await flowBrowser.press(decision.refs)
        return false
      case 'look':
        await this.#tools.clock.sleep(decision.afterMs, this.#signal)
        return false
      case 'ask':
        await askPerson(decision.question, seen, this.#memory, this.#secrets, this.#person())
        return false
      case 'verify':
        return this.#verify(page, seen)
    }
  }

  async #fill(decision: Extract<Decision, { do: 'fill' }>, page: PageModel): Promise<false> {
    const memory = this.#memory
    const hosts = hostsForValues(decision.fills, page, this.#connection, this.#secrets.places, memory.sso)
    const spec = this.#secrets.totp
    const code = spec && decision.fills.some(({ source }) => source === 'totp') ? await freshCode(spec, memory, this.#tools, this.#signal) : undefined
    if (code !== undefined) this.#secrets.scrubber.note(code, 'once')
    const values = actionsOf(decision.fills, this.#secrets, code)
    if ('unfit' in values) {
      // The site's select does not have this value: a person is asked.
      memory.rejected.push(values.unfit)
      memory.sent = undefined
      await this.#remember()
      return false
    }
    memory.sentVersion = versionSent(decision.fills, this.#secrets, memory)
    const path = page.host + stablePath(page.url)
    if (!this.#secrets.scrubber.holds(path)) memory.loginPath ??= path
    // From here on the values count as sent, whatever happens: a stored password is never typed a second time.
    await this.#isOurs(this.#tools.flows.submitting(this.#flow.id))
    await this.#remember()
    this.#assertTime()
    const filled = await this.#flowBrowser!.fill(decision, values.actions, hosts)
    this.#secrets.forgetCodes()
    if (memory.sent) memory.sent.isUnsure = false
    if (filled !== 'sent') this.#takeBack(decision, filled)
    await this.#remember()
    if (filled === 'sent' && (await this.#flowBrowser!.settle()) && memory.sent) memory.sent.isAnswered = true
    return false
  }

  /** The form was not sent: the agent reports that its controls could not be used. */
  #takeBack({ fills, isHeld }: Extract<Decision, { do: 'fill' }>, filled: 'typed' | 'nothing'): void {
    if (isHeld) return
    const memory = this.#memory
    const count = (memory.tried['unusable'] = (memory.tried['unusable'] ?? 0) + 1)
    if (count > 3) throw new FlowFailure('navigation_confused', 'the form could not be used: its fields or its button do not react')
    memory.sent = undefined
    if (filled === 'typed' && fills.some(({ source, field }) => source === 'stored' && field.role === 'password'))
      throw new FlowFailure('navigation_confused', 'the form could not be sent: its button or one of its fields does not react')
    const keys = fills.map(({ field }) => field.key)
    memory.storedSent = memory.storedSent.filter((key) => !keys.includes(key))
  }

  async #verify(page: PageModel, seen: Interpretation): Promise<boolean> {
    const result = await confirm({
      page,
      seen,
      memory: this.#memory,
      probe: (url) => this.#probe(url, false),
      cookies: () => this.#cookies(),
      scrubber: this.#secrets.scrubber,
      ...this.#where(),
      look: this.#lookTools(),
    })
    if (result === undefined) {
      await this.#remember()
      return false
    }
    await this.#succeed(result.postLoginUrl, result.learned)
    return true
  }

  async #succeed(postLoginUrl: string, learned: Learned | undefined): Promise<void> {
    const nothing = {
      requirements: [],
      keys: [],
      ssoProvider: undefined,
      steps: [],
      loginPath: undefined,
      marks: { cookies: [], signsOut: false, redirects: false },
    }
    const url = await keepAddress(postLoginUrl, this.#flow, this.#secrets.scrubber, this.#tools)
    this.#memory.success = { postLoginUrl: url, learned: learned ?? nothing, isSaved: false, newCredentialId: undefined, credentialId: undefined }
    await this.#remember()
    await this.#save()
  }

  async #save(): Promise<void> {
    if (this.#browserId === undefined) throw new FlowFailure('browser_error', 'the browser of the login is not known any more')
    await saveAndFinish({
      flow: this.#flow,
      browserId: this.#browserId,
      memory: this.#memory,
      secrets: this.#secrets,
      remember: () => this.#remember(),
      tools: this.#tools,
      // A verified login is saved, even if its time is over meanwhile.
      signal: this.#stop,
    })
  }

  /** A health check: opens one or two pages. */
  async #check(): Promise<void> {
    const { verdict, page } = await this.#probe(this.#connection.post_login_url ?? undefined)
    if (verdict !== 'inconclusive') return this.#end({ state: verdict })
    const why =
      page.error !== null
        ? `the page could not be opened (${page.error})`
        : page.status !== null && page.status >= 400
          ? `the site answered ${page.status}`
          : 'no page says whether the user is logged in'
    throw new FlowFailure('website_error', `the check could not tell: ${why}`)
  }

  #where(): { home: string; loginUrl: string | undefined } {
    return { home: homeOf(this.#connection), loginUrl: this.#connection.login_url ?? undefined }
  }

  #lookTools() {
    return { browser: this.#flowBrowser!.browser, interpret: this.#tools.interpret, context: this.#context(), signal: this.#signal }
  }

  #probe(postLoginUrl: string | undefined, isKnown = true) {
    return probe(this.#lookTools(), { postLoginUrl, ...this.#where(), learned: isKnown ? (this.#connection.learned ?? undefined) : undefined })
  }

  async #cookies(): Promise<NonNullable<Memory['cookies']>> {
    // For a connection with 100 allowed domains, the last one is left out.
    const { cookies } = await this.#flowBrowser!.browser.marks(this.#hosts('').slice(0, MAX_HOSTS), this.#signal)
    return cookies.slice(0, 100).map(({ name, domain, digest }) => ({ name, domain, digest }))
  }

  #context(): PageContext {
    const { sent, hasSentPassword } = this.#memory
    return { domain: this.#connection.domain, hasSubmitted: sent !== undefined || hasSentPassword, ssoProvider: this.#secrets.ssoProvider }
  }

  async #interpret(page: PageModel): Promise<Interpretation> {
    const seen = this.#secrets.scrubbed(this.#tools.interpret(page, this.#context()))
    const { model } = this.#tools
    const calls = this.#memory.tried['model'] ?? 0
    const isEmpty = page.url === 'about:blank' || page.controls.length === 0
    if (!model || isEmpty || seen.confidence >= SURE || calls >= MAX_MODEL_CALLS) return seen
    this.#memory.tried['model'] = calls + 1
    return this.#secrets.scrubbed((await model(page, this.#context(), this.#signal)) ?? seen)
  }

  #hosts(sso: string): string[] {
    const { domain, allowed_domains: allowedDomains } = this.#connection
    return allowedHosts({ domain, allowedDomains, sso })
  }

  #known(): Known {
    const secrets = this.#secrets
    return {
      sourceOf: (key, role) => secrets.sourceOf(key, role),
      hasTotp: secrets.totp !== undefined,
      ssoProvider: secrets.ssoProvider,
      scrub: (text) => secrets.scrubber.scrub(text),
      isOwn: (label) => secrets.isOwn(label),
      hosts: (sso) => this.#hosts(sso),
      candidates: candidatesOf(this.#connection),
      learned: this.#connection.learned ?? undefined,
      isAttended: isAttended(this.#flow),
    }
  }

  #person() {
    return {
      flow: this.#flow,
      tools: this.#tools,
      flowBrowser: this.#flowBrowser!,
      context: () => this.#context(),
      remember: () => this.#remember(),
      signal: this.#signal,
    }
  }

  #assertTime(): void {
    if (this.#tools.clock.now() >= this.#flow.expires_at.getTime()) throw new Expired('the time for this login is over')
  }

  async #isOurs(changed: Promise<boolean>): Promise<void> {
    if (!(await changed)) throw new NotOurs('the flow has ended')
  }

  #remember(): Promise<void> {
    return this.#isOurs(this.#tools.flows.remember(this.#flow.id, this.#memory))
  }

  #endingOf(error: unknown): Ending {
    const ending = endingOf(error, this.#memory, this.#deadline.aborted, this.#secrets.scrubber)
    if (ending.state === 'FAILED' && ending.errorCode === 'internal')
      this.#tools.log.error({ flow: this.#flow.id, error: error instanceof Error ? error.name : 'unknown' }, 'a login has failed inside')
    return ending
  }

  /** Records the end of the flow, ends its browser, then ends the flow. With this order no browser is forgotten. */
  async #end(ending: Ending): Promise<void> {
    this.#memory.ending = ending
    await this.#remember()
    await this.#endBrowser()
    await this.#isOurs(this.#tools.flows.finish(this.#flow.id, ending))
  }

  /** Somebody else has ended the flow, or works on it. If it has ended, ends its browser. */
  async #leave(): Promise<void> {
    const now = await this.#tools.flows.get(this.#flow.id)
    if (now?.state !== 'IN_PROGRESS') await this.#endBrowser()
  }

  async #endBrowser(): Promise<void> {
    if (this.#browserId === undefined) return
    for (let tries = 1; ; tries++) {
      try {
        return await this.#tools.browsers.finish(this.#browserId, { save: false }, AbortSignal.any([this.#stop, AbortSignal.timeout(END_MS)]))
      } catch (error) {
        this.#stop.throwIfAborted()
        this.#tools.log.warn({ flow: this.#flow.id, error: error instanceof Error ? error.name : 'unknown' }, 'the browser of a login could not be ended')
        // Its session's timeout ends it.
        if (tries === END_TRIES) return
        await this.#tools.clock.sleep(1000, this.#stop)
      }
    }
  }
}
