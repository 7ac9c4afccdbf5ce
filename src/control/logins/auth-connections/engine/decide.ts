// The rules of a login: choose the next action from the memory and the page. Pure: no browser, no storage, no values.
import { answered } from './answered.ts'
import { byHost, pick, press } from './choosing.ts'
import type { Decided, Decision, Known, PageFacts } from './decision.ts'
import { fillForm } from './fill-form.ts'
import { SURE, type Interpretation, type PageKind } from './interpretation.ts'
import { isTry, type Memory } from './memory.ts'
import { ask, showPage, unattended } from './questions.ts'

/** Most pages that follow an action. Logins of one site have fewer than eight. */
export const MAX_PAGES = 15
/** How often one page may appear again without a person's answer in between. */
const MAX_VISITS = 3
const SLOW_MS = 2000
const MAX_SLOW_LOOKS = 3
const RETRY_MS = 3000

const FORMS: readonly PageKind[] = ['login', 'identifier', 'password', 'code']

/** The next action on this page, and the memory after it. */
export function decide(before: Memory, seen: Interpretation, page: PageFacts, about: Known): Decided {
  const memory = structuredClone(before)
  return { decision: limits(memory, seen) ?? answered(memory, seen, page) ?? next(memory, seen, page, about), memory }
}

const fail = (code: Extract<Decision, { do: 'fail' }>['code'], message: string): Decision => ({ do: 'fail', code, message })

/** Counts pages that follow an action. A login that goes in circles ends. */
function limits(memory: Memory, { signature }: Interpretation): Decision | undefined {
  if (!memory.hasActed) return undefined
  memory.hasActed = false
  memory.pages++
  memory.visits[signature] = (memory.visits[signature] ?? 0) + 1
  if (memory.pages > MAX_PAGES) return fail('stuck_in_loop', `the login led through more than ${MAX_PAGES} pages`)
  // Wrong answers of a person have their own limit.
  const isAnswered = memory.sent?.fields.some(({ source }) => source !== 'stored') === true
  if (!isAnswered && memory.visits[signature]! > MAX_VISITS) return fail('stuck_in_loop', 'the same page came again and again')
  return undefined
}

function next(memory: Memory, seen: Interpretation, page: PageFacts, about: Known): Decision {
  if (seen.kind === 'http_auth') return fail('unsupported_auth_method', 'the site asks for a user and password by HTTP itself, which is not supported')
  if (seen.kind === 'error') return failed(memory, seen, page, about)
  if (seen.dismiss !== undefined && isTry(memory, `dismiss ${seen.signature}`, 2)) return press(memory, seen, [seen.dismiss])
  if (seen.kind === 'unknown') return unknown(memory, seen, page, about)
  if (seen.confidence < SURE) return isLate(memory, seen) ?? unsure(memory, seen, about)
  if (FORMS.includes(seen.kind)) return fillForm(memory, seen, page, about)
  const chosen = pick(memory, seen, page, about)
  if (chosen) return chosen
  switch (seen.kind) {
    case 'logged_in':
      return { do: 'verify' }
    case 'way_to_login':
      return openLogin(memory, seen, page, about)
    case 'sign_up':
      return memory.hasSent
        ? showPage(memory, seen, about, 'The site asks for a new password or a registration. Use the live view to go on.')
        : openLogin(memory, seen, page, about)
    case 'trust_device':
    case 'consent':
    case 'interstitial':
      return onward(memory, seen, about)
    case 'passkey_prompt':
      if (seen.choices.length > 0) return ask(memory, seen, about, [])
      return seen.proceed === undefined ? fail('unsupported_auth_method', 'the site only takes a passkey, which is not supported') : onward(memory, seen, about)
    case 'captcha':
    case 'external_wait':
      return external(memory, seen, page, about)
    case 'sso_only':
      if (seen.loginLinks.length > 0 && !memory.hasSent && isTry(memory, `way ${seen.signature}`, 1)) return press(memory, seen, [seen.loginLinks[0]!])
      return choices(memory, seen, page, about)
    default:
      return choices(memory, seen, page, about)
  }
}

function choices(memory: Memory, seen: Interpretation, page: PageFacts, about: Known): Decision {
  if (seen.choices.length === 0) return unknown(memory, seen, page, about)
  return byHost(memory, page, about, []) ?? ask(memory, seen, about, [])
}

/** A page that could not be opened, or that reports a failure of the site. */
function failed(memory: Memory, seen: Interpretation, page: PageFacts, about: Known): Decision {
  const { error, status } = page
  const what = error === null ? `the site answered ${status ?? 'that something failed'}` : `the page could not be opened (${error})`
  if (error !== null || (status !== null && status >= 500)) {
    if (isTry(memory, 'failed', 1)) {
      // Loading it again would send the form again.
      if (memory.hasSent) return { do: 'verify' }
      return about.candidates[Math.max(0, memory.candidate - 1)] === undefined ? { do: 'look', afterMs: RETRY_MS } : again(memory, about)
    }
    return fail('website_error', what)
  }
  if (status === 403 || status === 429) return fail('bot_detected', `${what}: it takes the browser for a program`)
  if (!memory.hasSent && seen.loginLinks.length > 0) return openLogin(memory, seen, page, about)
  if (seen.proceed !== undefined && isTry(memory, `onward ${seen.signature}`, 1)) return press(memory, seen, [seen.proceed])
  if (!memory.hasSent) return candidate(memory, about) ?? fail('login_form_not_found', `${what}, and no login form was found`)
  return isTry(memory, 'verify error', 1) ? { do: 'verify' } : fail('website_error', seen.websiteError ?? what)
}

/** Opens the last address once more. */
function again(memory: Memory, { candidates }: Known): Decision {
  memory.hasActed = true
  return { do: 'open', url: candidates[Math.max(0, memory.candidate - 1)]! }
}

/** Opens the next address where the form may be. */
function candidate(memory: Memory, { candidates }: Known): Decision | undefined {
  const url = candidates[memory.candidate]
  if (url === undefined) return undefined
  memory.candidate++
  memory.hasActed = true
  return { do: 'open', url }
}

/** Pages that scripts build show little at first, so read them again. */
function isLate(memory: Memory, { signature }: Interpretation): Decision | undefined {
  return isTry(memory, `slow ${signature}`, MAX_SLOW_LOOKS) ? { do: 'look', afterMs: SLOW_MS } : undefined
}

function unknown(memory: Memory, seen: Interpretation, page: PageFacts, about: Known): Decision {
  // No address has been opened yet.
  if (page.url === 'about:blank' || page.url === '') {
    // The service restarted after the decision to open an address and before opening it.
    if (memory.candidate > 0 && isTry(memory, 'reopen', 2)) return again(memory, about)
    return candidate(memory, about) ?? fail('login_form_not_found', 'there is no address to begin at')
  }
  const late = isLate(memory, seen)
  if (late) return late
  if (memory.hasSent)
    return isTry(memory, 'verify unknown', 2) ? { do: 'verify' } : showPage(memory, seen, about, 'This page was not understood. Use the live view to go on.')
  return candidate(memory, about) ?? fail('login_form_not_found', 'no login form was found; give the connection the login_url')
}

/** The page was recognised, but not with enough confidence to act without a person. */
function unsure(memory: Memory, seen: Interpretation, about: Known): Decision {
  if (!about.isAttended && !memory.hasSent)
    return candidate(memory, about) ?? fail('login_form_not_found', 'no page was understood to be the login form; give the connection the login_url')
  return showPage(memory, seen, about, 'This page was not understood well enough. Use the live view to go on.')
}

/** Tries links to the form, best first; then addresses that many sites have. */
function openLogin(memory: Memory, seen: Interpretation, page: PageFacts, about: Known): Decision {
  // After a login, a link to log in means that it failed, or belongs to another part of the page.
  if (memory.hasSent && isTry(memory, 'verify way', 1)) return { do: 'verify' }
  const tried = memory.tried[`way ${seen.signature}`] ?? 0
  const ref = seen.loginLinks[tried]
  if (ref !== undefined && isTry(memory, `way ${seen.signature}`, MAX_VISITS)) return press(memory, seen, [ref])
  if (memory.hasSent) return fail('navigation_confused', 'the login led to a page that offers to log in')
  return candidate(memory, about) ?? fail('login_form_not_found', `no login form was found at ${page.host}; give the connection the login_url`)
}

/** "Stay signed in?", "Allow?", "Continue": confirms. */
function onward(memory: Memory, seen: Interpretation, about: Known): Decision {
  const { proceed, tick } = seen
  if (proceed !== undefined && isTry(memory, `onward ${seen.signature}`, MAX_VISITS)) return press(memory, seen, [...tick, proceed])
  return showPage(memory, seen, about, 'The site wants something to be confirmed. Use the live view to go on.')
}

/** A person has to act elsewhere. The page's other offers are alternatives. */
function external(memory: Memory, seen: Interpretation, page: PageFacts, about: Known): Decision {
  const action = seen.external?.action ?? (seen.kind === 'captcha' ? 'captcha' : 'other')
  const message = seen.external?.message || 'Use the live view to go on.'
  if (!about.isAttended)
    return action === 'captcha'
      ? fail('captcha_blocked', 'the site shows a captcha, and nobody is there to solve it')
      : unattended('something to be done elsewhere')
  if (seen.kind === 'captcha') return ask(memory, seen, about, [], { action, message })
  return byHost(memory, page, about, []) ?? ask(memory, seen, about, [], { action, message })
}
