// Decides whether the user is logged in, from a page and from the facts of the last login. The same for logins and health checks.
import type { PageModel } from '../../../../agent/login/contract.ts'
import type { Learned } from '../flow.ts'
import { SURE, type Interpretation, type PageContext, type PageKind } from './interpretation.ts'
import type { LoginBrowser } from './browser.ts'
import { isTry, type Memory } from './memory.ts'
import type { Scrubber } from './scrub.ts'
import { stablePath } from './signature.ts'
import { FlowFailure } from './work.ts'

export type Verdict = 'AUTHENTICATED' | 'NEEDS_AUTH' | 'inconclusive'

/** How often an inconclusive page is read again, and how long to wait each time for a change. Two pages take twice as long at most. */
const MAX_LATE_LOOKS = 3
const LATE_MS = 2_500

const ASKS: readonly PageKind[] = ['login', 'identifier', 'password', 'code', 'sso_only', 'method_choice', 'account_choice']

/** The verdict of one page. A failed site, or a page that could not be opened, is inconclusive: a good session must not be given up for it. */
export function judge(page: PageModel, seen: Interpretation, learned: Learned | undefined): Verdict {
  if (hasFailed(page, seen)) return 'inconclusive'
  if (ASKS.includes(seen.kind)) return seen.confidence >= SURE ? 'NEEDS_AUTH' : 'inconclusive'
  if (seen.kind === 'logged_in' && seen.confidence >= SURE) return 'AUTHENTICATED'
  const at = page.host + stablePath(page.url)
  const isInstead = learned !== undefined && at === learned.marks.insteadOf
  if (learned?.loginPath === at && !isInstead) return 'NEEDS_AUTH'
  if (seen.signOut !== undefined) return 'AUTHENTICATED'
  // This page shows guests how to log in, and now offers something else. If it offered users to sign out before, it is inconclusive without that.
  if (isInstead && !learned.marks.signsOut && seen.loginLinks.length === 0 && page.controls.some(({ visible }) => visible)) return 'AUTHENTICATED'
  // A page that offered to sign out now offers to log in.
  if (seen.kind === 'way_to_login' && (learned === undefined || learned.marks.signsOut || isInstead)) return 'NEEDS_AUTH'
  return 'inconclusive'
}

const hasFailed = ({ error, status }: PageModel, { kind }: Interpretation): boolean =>
  error !== null || (status !== null && (status >= 500 || status === 429)) || kind === 'http_auth' || kind === 'captcha' || kind === 'error'

export interface Probed {
  verdict: Verdict
  page: PageModel
  seen: Interpretation
}

interface Tools {
  browser: LoginBrowser
  interpret: (page: PageModel, context: PageContext) => Interpretation
  context: PageContext
  signal: AbortSignal
}

/** Opens an address and reads the page. The agent waits for the page. */
async function look({ browser, interpret, context, signal }: Tools, url: string, newTab: boolean): Promise<{ page: PageModel; seen: Interpretation }> {
  await browser.open(url, { newTab }, signal)
  const page = await browser.read(signal)
  return { page, seen: interpret(page, context) }
}

/** The same, with the verdict. An inconclusive page may still wait for its server, as pages built by scripts do, so it is read again a few times. */
async function judged(tools: Tools, url: string, newTab: boolean, learned: Learned | undefined): Promise<Probed> {
  const { browser, interpret, context, signal } = tools
  let { page, seen } = await look(tools, url, newTab)
  for (let looks = 0; ; looks++) {
    const verdict = judge(page, seen, learned)
    if (verdict !== 'inconclusive' || looks === MAX_LATE_LOOKS || hasFailed(page, seen)) return { verdict, page, seen }
    await browser.settle(LATE_MS, signal)
    page = await browser.read(signal)
    seen = interpret(page, context)
  }
}

interface Where {
  postLoginUrl: string | undefined
  home: string
  loginUrl: string | undefined
  learned: Learned | undefined
}

/**
 * Opens the page after the login (or the home page, or the login page) in a new tab. If that is inconclusive, a second page decides: a login page that
 * redirects users who are logged in, or another one of these.
 */
export async function probe(tools: Tools, { postLoginUrl, home, loginUrl, learned }: Where): Promise<Probed> {
  const first = postLoginUrl ?? home
  const one = await judged(tools, first, true, learned)
  if (one.verdict !== 'inconclusive') return one
  const isMark = loginUrl !== undefined && learned?.marks.redirects === true
  const second = isMark ? loginUrl : first === home ? loginUrl : home
  if (second === undefined || second === first) return one
  const two = await judged(tools, second, false, learned)
  const isElsewhere = isMark && !hasFailed(two.page, two.seen) && pathOf(two.page.url) !== pathOf(loginUrl)
  return two.verdict === 'inconclusive' && isElsewhere ? { ...two, verdict: 'AUTHENTICATED' } : two
}

/** An address without query and fragment. */
export const pathOf = (url: string): string => (URL.canParse(url) ? new URL(url).host + new URL(url).pathname.replace(/\/$/, '') : url)

interface Cookie {
  name: string
  domain: string
  digest: string
}

/** Cookies that the login has set or changed. */
export const changedCookies = (before: readonly Cookie[], after: readonly Cookie[]): { name: string; domain: string }[] =>
  after
    .filter(({ name, domain, digest }) => !before.some((old) => old.name === name && old.domain === domain && old.digest === digest))
    .slice(0, 50)
    .map(({ name, domain }) => ({ name, domain }))

interface Confirming {
  page: PageModel
  seen: Interpretation
  memory: Memory
  probe: (url: string | undefined) => Promise<Probed>
  cookies: () => Promise<Cookie[]>
  scrubber: Pick<Scrubber, 'holdsSecret' | 'address'>
  home: string
  loginUrl: string | undefined
  look: Tools
}

/**
 * Checks in a new tab whether a login has succeeded. Returns the facts by which a later check recognises it. Undefined when the open page asks to log in, so
 * the flow continues there.
 * @throws FlowFailure when nothing confirms the login
 */
export async function confirm({
  page,
  seen,
  memory,
  probe: probeAt,
  cookies,
  scrubber,
  loginUrl,
  look: tools,
}: Confirming): Promise<{ postLoginUrl: string; learned: Learned } | undefined> {
  // A page that reports a failure cannot be used for checks, even if the login has succeeded.
  // An address with the password in it (of a form sent by GET) would log in again; it is not opened a second time, and not saved with the profile's tab.
  const url = scrubber.holdsSecret(page.url) ? scrubber.address(page.url) : page.url
  const before = /^https?:/.test(url) && page.error === null && seen.kind !== 'error' ? url : undefined
  const found = await probeAt(before)
  const changed = changedCookies(memory.cookies ?? [], await cookies())
  const isBroken = found.page.error !== null || found.seen.kind === 'error'
  if (found.verdict === 'NEEDS_AUTH') {
    if (!isTry(memory, 'verified and asked again', 2))
      throw new FlowFailure('navigation_confused', 'the site asks to log in again after the login', { isRefusal: true })
    memory.hasActed = true
    return undefined
  }
  // There is no sign of a user, but the site has set cookies during the login and asks for nothing.
  const isLikely = (seen.kind === 'logged_in' && seen.confidence >= SURE) || (memory.hasSentPassword && changed.length > 0 && !isBroken)
  if (found.verdict === 'inconclusive' && !isLikely)
    throw isBroken
      ? new FlowFailure('website_error', 'the site failed after the login')
      : new FlowFailure('navigation_confused', 'nothing on the pages after the login says that it succeeded')
  const signsOut = found.seen.signOut !== undefined || seen.signOut !== undefined
  const postLoginUrl = before ?? found.page.url
  const redirects = !signsOut && loginUrl !== undefined && (await leadsElsewhere(tools, loginUrl, postLoginUrl))
  const { requirements, keys, sso, steps, loginPath } = memory
  const at = hostAndPath(postLoginUrl)
  const isForGuests = at === loginPath || steps.some(({ signature }) => signature.startsWith(`way_to_login|${at}|`))
  const marks = { cookies: changed, signsOut, redirects, ...(isForGuests && seen.loginLinks.length === 0 && { insteadOf: at }) }
  return { postLoginUrl, learned: { requirements, keys, ssoProvider: sso === '' ? undefined : sso, steps: steps.slice(-30), loginPath, marks } }
}

const hostAndPath = (url: string): string => (URL.canParse(url) ? new URL(url).hostname + stablePath(url) : '')

/** Whether the login page redirects users who are logged in. Afterwards the browser shows the page after the login again. */
async function leadsElsewhere(tools: Tools, loginUrl: string, postLoginUrl: string): Promise<boolean> {
  const { page, seen } = await look(tools, loginUrl, false)
  await look(tools, postLoginUrl, false)
  return page.error === null && seen.kind !== 'error' && !ASKS.includes(seen.kind) && pathOf(page.url) !== pathOf(loginUrl)
}
