// Logins in a fake browser: the pages that a test has written for an instance, one after the other. Each click or key shows the next page; an instance without
// pages has an empty page.
import type { Login } from '../../agent/login/login.ts'
import type { Acted, Action, PageModel, Settled } from '../../agent/login/contract.ts'

/** The pages that a test has written, and the actions on them. */
export interface FakeLogin {
  pages: Partial<PageModel>[]
  /** The answers to the first actions, which are then not carried out. */
  refusals?: Acted[]
  /** The addresses that were opened, and the actions with the hosts that were allowed, in their order. */
  opened: string[]
  acted: { actions: readonly Action[]; hosts: readonly string[] }[]
  cookies?: Awaited<ReturnType<Login['marks']>>
}

/** By the ids of instances; the entry `''` is for all others. A test removes what it has set. */
export const fakeLogins = new Map<string, FakeLogin>()

const EMPTY: PageModel = {
  generation: 0,
  url: 'about:blank',
  host: '',
  title: '',
  language: '',
  status: null,
  error: null,
  http_auth: false,
  passkey_asked: false,
  frames: [{ url: 'about:blank', host: '', parent: null, name: '', title: '', visible: true, box: { x: 0, y: 0, width: 0, height: 0 } }],
  forms: [],
  controls: [],
  headings: [],
  alerts: [],
  has_dialog: false,
  body: '',
}

export function pretendLogin(id: string, scope: AsyncDisposableStack): Login {
  let generation = 0
  let at = 0
  let readAt = 0
  scope.defer(() => void fakeLogins.delete(id))
  const script = (): FakeLogin => fakeLogins.get(id) ?? fakeLogins.get('') ?? { pages: [], opened: [], acted: [] }
  return {
    async open(url) {
      const { opened, pages } = script()
      opened.push(url)
      at = 0
      return { error: pages[0]?.error ?? null }
    },
    async read() {
      const { pages } = script()
      generation++
      readAt = at
      const page = { ...EMPTY, ...pages[Math.min(at, pages.length - 1)], generation }
      return { ...page, controls: page.controls.map((control) => ({ ...control, ref: control.ref.replace(/^\d+/, String(generation)) })) }
    },
    async act(actions, hosts) {
      const { acted, refusals } = script()
      acted.push({ actions, hosts })
      const refusal = refusals?.shift()
      if (refusal) return refusal
      if (actions.some(({ ref }) => !ref.startsWith(`${generation}.`))) return { done: 0, problem: 'gone', host: null }
      if (actions.some(({ kind }) => kind === 'click' || kind === 'press')) at++
      return { done: actions.length, problem: null, host: null }
    },
    async settle(): Promise<Settled> {
      const { pages } = script()
      return at > readAt && readAt < pages.length - 1 ? { by: 'navigated' } : { by: 'nothing' }
    },
    marks: async () => script().cookies ?? { cookies: [] },
    async end() {
      at = 0
    },
  }
}
