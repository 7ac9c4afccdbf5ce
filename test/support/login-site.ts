// A fake site with its browser, a fake store of flows, and a clock that never really waits: the login engine's worker runs on them in fast tests.
import { login, type Action, type Control, type PageModel } from '../../src/agent/login/contract.ts'
import type { Answer, Learned, Pause } from '../../src/control/logins/auth-connections/flow.ts'
import { BrowserGone, type LoginBrowser, type LoginBrowsers } from '../../src/control/logins/auth-connections/engine/browser.ts'
import { isAllowedHost } from '../../src/control/logins/auth-connections/engine/hosts.ts'
import { interpret } from '../../src/control/logins/auth-connections/engine/interpret.ts'
import type { FlowEnd } from '../../src/control/logins/auth-connections/flow-ends.ts'
import type { Connection, Flow, FlowRows, Tools } from '../../src/control/logins/auth-connections/engine/work.ts'
import { page } from './page-models.ts'

export type Parts = Parameters<typeof page>[0]
export interface SitePage {
  parts: Parts
  more?: Parameters<typeof page>[1]
  /** The action of a button: gets the button's label and the values of the page's fields by label, and returns the next address. */
  press?: (label: string, values: Record<string, string>) => string | undefined
  /** Whether the page submits itself, as by its button, when these values have been typed. */
  sendsItself?: (values: Record<string, string>) => boolean
  /** Nothing on the page changes when a button is pressed. */
  isSilent?: boolean
  /** Whether the buttons do not react yet, although they look active. */
  isBusy?: () => boolean
  /** How the field with this label refuses a value: `before` anything is typed, or `after`, when it accepts the value and shows none. */
  refuses?: (label: string) => 'before' | 'after' | undefined
}
/** `user` belongs to the profile (its cookies), `step` to one browser's progress in a login. */
export interface State {
  user: string
  step: Record<string, unknown>
}
export type Site = (url: URL, state: State) => SitePage

/** Secret values that must appear nowhere. */
export const SECRETS = { username: 'ada-canary-7f', password: 'pw-canary-31', code: '481516', wrong: 'wrong-canary-99' }

export class Clock {
  at = Date.parse('2026-11-23T12:00:00Z')
  readonly now = () => this.at
  readonly sleep = async (ms: number, signal: AbortSignal): Promise<void> => {
    signal.throwIfAborted()
    this.at += ms
  }
}

class FakeBrowser implements LoginBrowser {
  readonly id: string
  readonly #world: World
  isGone = false
  url = 'about:blank'
  readonly state: State
  #values = new Map<string, string>()
  #model: PageModel | undefined

  constructor(id: string, world: World) {
    this.id = id
    this.#world = world
    this.state = { user: world.profile.user, step: {} }
  }
  #assertHere(): void {
    if (this.isGone) throw new BrowserGone('gone')
  }
  go(url: string): void {
    this.url = url
    this.#values.clear()
  }
  #page(): SitePage {
    return this.url === 'about:blank' ? { parts: [] } : this.#world.site(new URL(this.url), this.state)
  }
  async open(url: string): Promise<string | null> {
    this.#assertHere()
    this.go(url)
    this.#world.opened.push(url)
    return null
  }
  async read(): Promise<PageModel> {
    this.#assertHere()
    this.#world.reads++
    const { parts, more } = this.#page()
    const host = this.url === 'about:blank' ? '' : new URL(this.url).hostname
    const made = page(parts, { url: this.url, host, ...more })
    made.frames[0]!.host = host
    made.controls.forEach((control) => (control.has_value ||= this.#values.has(control.ref)))
    return (this.#model = made)
  }
  async act(actions: readonly Action[], hosts: readonly string[]) {
    this.#assertHere()
    // Check the actions as an agent does.
    if (actions.length > 0) login.actOnLoginPage.body.parse({ actions, hosts })
    for (const [done, action] of actions.entries()) {
      const control = this.#model!.controls.find(({ ref }) => ref === action.ref)
      if (!control) return { done, problem: 'gone' as const, host: null }
      if (action.kind === 'fill') {
        if (!isAllowedHost(this.#model!.host, hosts)) return { done, problem: 'host' as const, host: this.#model!.host }
        const refuses = this.#page().refuses?.(control.label)
        if (refuses === 'before') return { done, problem: 'gone' as const, host: null, typed: false }
        this.#world.typed.push(action.value)
        if (refuses === 'after') return { done, problem: 'unusable' as const, host: null, typed: true }
        this.#values.set(action.ref, action.value)
        if (this.#page().sendsItself?.(this.#labelled())) this.#press(control)
      } else if (action.kind === 'click' || action.kind === 'press') {
        if ((!control.enabled || this.#page().isBusy?.()) && action.kind === 'click') return { done, problem: 'unusable' as const, host: null }
        this.#press(control)
      }
    }
    return { done: actions.length, problem: null, host: null }
  }
  #labelled(): Record<string, string> {
    return Object.fromEntries([...this.#values].map(([ref, value]) => [this.#model!.controls.find((each) => each.ref === ref)!.label, value]))
  }
  #press(control: Control): void {
    if (control.href_path !== null) return this.go(new URL(control.href_path, `https://${control.href_host ?? new URL(this.url).host}`).href)
    const values = this.#labelled()
    if (Object.keys(values).length > 0) this.#world.sent.push({ host: new URL(this.url).hostname, values })
    const next = this.#page().press?.(control.label, values)
    if (next !== undefined) this.go(new URL(next, this.url).href)
    else this.#values.clear()
  }
  async settle() {
    this.#assertHere()
    const isSame = this.url === this.#model?.url
    return { by: !isSame ? ('navigated' as const) : this.#page().isSilent === true ? ('nothing' as const) : ('changed' as const) }
  }
  async marks(hosts: readonly string[]) {
    this.#assertHere()
    login.readLoginMarks.body.parse({ hosts })
    const cookie = { name: 'session', domain: 'example.test', digest: '0'.repeat(32) }
    return { cookies: this.state.user === '' ? [] : [cookie] }
  }
  async end(): Promise<void> {
    this.#assertHere()
  }
}

/** The state outside a worker, which survives it. */
export class World {
  site: Site
  readonly clock = new Clock()
  /** The saved state of the profile. */
  profile = { user: '', saves: 0 }
  readonly browsers = new Map<string, FakeBrowser>()
  readonly opened: string[] = []
  readonly sent: { host: string; values: Record<string, string> }[] = []
  /** The typed values, in order. */
  readonly typed: string[] = []
  /** The full address after the login, which the service encrypts. */
  landing: string | undefined
  reads = 0
  readonly kept: { into: string | undefined; name: string; values: Record<string, string> }[] = []
  /** The ids of the credentials in which the engine saved the values. */
  readonly keptIds = new Set<string>()
  readonly lines: string[] = []
  row: Flow & { end?: FlowEnd; websiteError?: string | null; typed?: Record<string, string>; answer?: Answer | undefined }
  connection: Connection
  /** Every pause that was shown to a person. */
  readonly pauses: Pause[] = []
  stored: { version: string; values: Record<string, string>; ssoProvider: string | undefined; totp: { period: number } | undefined } | undefined
  /** The answer of a credential provider. */
  provided: (by: { path: string; domain: string | undefined } | { domain: string }) => {
    values: Record<string, string>
    totp: string | undefined
    hosts: string[]
  } = () => ({ values: {}, totp: undefined, hosts: [] })
  proxyReads: 'nothing' | 'plain' | 'all' = 'nothing'
  /** Called repeatedly during a wait for a person. Returns the person's answer. */
  person: (pause: Pause, step: string) => Partial<Pick<Answer, 'values' | 'choice'>> | undefined = () => undefined
  #made = 0

  constructor(site: Site, more: { connection?: Partial<Connection>; flow?: Partial<Flow> } = {}) {
    this.site = site
    this.connection = {
      id: 'connection',
      project_id: 'project',
      profile_id: 'profile',
      domain: 'example.test',
      login_url: 'https://example.test/login',
      allowed_domains: [],
      record_session: false,
      save_credentials: true,
      credential_id: null,
      provider_id: null,
      provider_path: null,
      by_project_key: false,
      proxy_id: null,
      browser: { stealth: true },
      status: 'NEEDS_AUTH',
      post_login_url: null,
      learned: null,
      ...more.connection,
    }
    this.row = {
      id: 'flow',
      connection_id: 'connection',
      type: 'login',
      state: 'IN_PROGRESS',
      step: 'DISCOVERING',
      asked: {},
      memory: {},
      pause: null,
      browser_id: null,
      code_hash: null,
      expires_at: new Date(this.clock.at + 20 * 60_000),
      input_until: null,
      ...more.flow,
    }
  }

  /** Gives the connection a stored credential. */
  withStored(values: Record<string, string>, more: { ssoProvider?: string; totp?: boolean } = {}): this {
    this.stored = { version: 'credential 1', values, ssoProvider: more.ssoProvider, totp: more.totp ? { period: 30 } : undefined }
    this.connection.credential_id = 'credential'
    return this
  }

  /** How many times a value was sent. */
  sentOf = (value: string): number => this.sent.filter(({ values }) => Object.values(values).includes(value)).length

  readonly flows: FlowRows = {
    claimNext: async () => (this.row.state === 'IN_PROGRESS' ? structuredClone(this.row) : undefined),
    giveBack: async () => {},
    onNews: () => () => {},
    get: async () => structuredClone(this.row),
    connectionOf: async () => structuredClone(this.connection),
    remember: async (_, memory) => this.#change({ memory: JSON.parse(JSON.stringify(memory)) as Record<string, unknown> }),
    ask: async (_, pause, step, until, websiteError) => {
      const stored = JSON.parse(JSON.stringify(pause)) as Pause
      if (this.row.answer) return false
      if (this.row.state === 'IN_PROGRESS') this.pauses.push(stored)
      return this.#change({ pause: stored, step, input_until: until, websiteError })
    },
    takeAnswer: async () => {
      const { answer } = this.row
      if (answer) this.#change({ pause: null, input_until: null, step: 'SUBMITTING', answer: undefined })
      return answer
    },
    submitting: async () => !this.row.answer && this.#change({ step: 'SUBMITTING', pause: null, input_until: null, websiteError: null }),
    discovering: async () => !this.row.answer && this.#change({ step: 'DISCOVERING', pause: null, input_until: null }),
    bind: async (_, { browserId }) => this.#change(browserId === undefined ? {} : { browser_id: browserId }),
    keepTyped: async (_, typed) => this.#change({ typed: { ...typed } }),
    openTyped: async () => ({ ...this.row.typed }),
    keepAddress: async (_, url) => {
      this.landing = url
      return true
    },
    finish: async (_, end) => {
      const isOurs = this.#change({ step: 'COMPLETED', pause: null })
      if (isOurs) Object.assign(this.row, { state: end.state, end: JSON.parse(JSON.stringify(end)) as FlowEnd, typed: undefined, answer: undefined })
      return isOurs
    },
    next: () => {
      this.clock.at += 1000
      const { pause, step, answer } = this.row
      const said = pause && !answer ? this.person(pause, step) : undefined
      if (said && pause) this.row.answer = { interactionId: pause.interactionId, values: said.values ?? {}, choice: said.choice }
      return { promise: Promise.resolve(), leave: () => {} }
    },
    expireDue: async () => 0,
  }
  #change(what: Partial<World['row']>): boolean {
    if (this.row.state !== 'IN_PROGRESS') return false
    Object.assign(this.row, what)
    return true
  }

  readonly loginBrowsers: LoginBrowsers = {
    make: async () => {
      const browser = new FakeBrowser(`browser-${++this.#made}`, this)
      this.browsers.set(browser.id, browser)
      return { browser, replayId: undefined, capturesTelemetry: false }
    },
    find: async (id) => {
      const browser = this.browsers.get(id)
      return browser && !browser.isGone ? browser : undefined
    },
    finish: async (id, { save }) => {
      const browser = this.browsers.get(id)
      if (!browser || browser.isGone) {
        if (save && !this.#saved.has(id)) throw new BrowserGone('gone before it was saved')
        return
      }
      if (save) {
        this.profile = { user: browser.state.user, saves: this.profile.saves + 1 }
        this.#saved.add(id)
      }
      browser.isGone = true
    },
    liveViewUrl: async () => undefined,
  }
  readonly #saved = new Set<string>()

  readonly log = Object.fromEntries(
    ['debug', 'info', 'warn', 'error'].map((level) => [
      level,
      (fields: object, message: string) => void this.lines.push(JSON.stringify({ level, message, ...fields })),
    ]),
  ) as unknown as Tools['log']

  tools(): Tools {
    return {
      flows: this.flows,
      browsers: this.loginBrowsers,
      credentials: {
        open: async () => structuredClone(this.stored),
        keep: async (_, { into, id, name, values }) => {
          this.kept.push({ into, name, values })
          this.keptIds.add(into ?? id)
          return into ?? id
        },
      },
      providers: { resolve: async (_, by) => this.provided(by) },
      proxyReads: async () => this.proxyReads,
      totp: {
        read: () => ({ period: 30 }),
        // The code is the number of the period, so that a test's site can check it.
        code: ({ period }, now) => {
          const at = Math.floor(now.getTime() / (period * 1000))
          return { code: String(at % 1_000_000).padStart(6, '0'), expiresAt: new Date((at + 1) * period * 1000) }
        },
      },
      interpret,
      model: undefined,
      credentialName: async () => 'profile-example.test',
      clock: this.clock,
      log: this.log,
    }
  }

  get learned(): Learned | undefined {
    return this.row.end?.state === 'SUCCESS' ? this.row.end.learned : undefined
  }
  /** All stored and logged text that is not encrypted. */
  plainText = (): string => JSON.stringify([{ ...this.row, typed: undefined, answer: undefined }, this.pauses, this.lines])
  openBrowsers = (): number => [...this.browsers.values()].filter(({ isGone }) => !isGone).length
}
