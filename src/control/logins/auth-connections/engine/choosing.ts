// Chooses between a page's offers without a person, and presses controls. Pure.
import { createHash } from 'node:crypto'
import type { Ref } from '../../../../agent/login/contract.ts'
import type { Decision, Known, PageFacts } from './decision.ts'
import { isAllowedHost } from './hosts.ts'
import type { Interpretation, PageChoice, PageField } from './interpretation.ts'
import { addOnce, isTry, type Chosen, type Memory } from './memory.ts'

/** Presses controls that need no value. */
export function press(memory: Memory, { signature }: Interpretation, refs: Ref[], choice?: Chosen): Decision {
  memory.hasActed = true
  memory.steps.push({ signature, choice })
  return { do: 'press', refs }
}

/**
 * A choice in the form that is remembered, in plain text. The label of an account names the user: only a digest of it is kept. In other labels, known values
 * are masked. The same offer gives the same result while the same values are known; otherwise a person is asked.
 */
export const brief = ({ type, label, mfa, provider }: Offer, scrub: Known['scrub']): Chosen => ({
  type,
  label: type === 'account' ? createHash('sha256').update(`cob account ${label}`).digest('base64url') : scrub(label),
  mfa,
  provider,
})
type Offer = Pick<PageChoice, 'type' | 'label' | 'mfa' | 'provider'>

/** Presses an offer of the page, and its confirm button if there is one. */
export function choose(memory: Memory, seen: Interpretation, choice: PageChoice, { scrub }: Pick<Known, 'scrub'>): Decision {
  if (choice.type === 'sso_provider') {
    memory.sso = choice.provider ?? scrub(choice.label)
    addOnce(memory.requirements, 'sso')
  }
  memory.hasSent ||= choice.type === 'mfa_method'
  const isConfirmed = seen.submit !== undefined && (seen.kind === 'method_choice' || seen.kind === 'organization_choice')
  return press(memory, seen, isConfirmed ? [choice.ref, seen.submit!] : [choice.ref], brief(choice, scrub))
}

const isSame = (wanted: Chosen, offer: Chosen): boolean =>
  wanted.type === offer.type && wanted.label === offer.label && wanted.mfa === offer.mfa && wanted.provider === offer.provider
/** Labels change with the language and with numbers in them. Method and provider do not. */
const isLike = (wanted: Chosen, offer: Chosen): boolean =>
  isSame(wanted, offer) ||
  (wanted.type === offer.type && (wanted.mfa !== undefined || wanted.provider !== undefined) && wanted.mfa === offer.mfa && wanted.provider === offer.provider)

/** Presses a person's choice, if the page still offers it. */
export function takeChosen(memory: Memory, seen: Interpretation, about: Known): Decision | undefined {
  const { chosen } = memory
  if (!chosen) return undefined
  memory.chosen = undefined
  const offer = seen.choices.find((each) => isSame(chosen, brief(each, about.scrub)))
  return offer && choose(memory, seen, offer, about)
}

/** The service in the credential comes first. */
export function takeSso(memory: Memory, seen: Interpretation, about: Known): Decision | undefined {
  const { ssoProvider } = about
  if (ssoProvider === undefined || memory.sso !== '') return undefined
  const offer = seen.choices.find(({ type, provider }) => type === 'sso_provider' && provider === ssoProvider.toLowerCase())
  return offer && choose(memory, seen, offer, about)
}

/** Repeats the choice on this page from the last successful login. */
export function takeLearned(memory: Memory, seen: Interpretation, about: Known): Decision | undefined {
  const step = about.learned?.steps.find(({ signature, choice }) => signature === seen.signature && choice !== undefined)
  const offer = step && seen.choices.find((each) => isLike(step.choice!, brief(each, about.scrub)))
  return offer && isTry(memory, `learned ${seen.signature}`, 1) ? choose(memory, seen, offer, about) : undefined
}

/** The offer to take without asking; undefined when a person must choose. */
export function pick(memory: Memory, seen: Interpretation, page: PageFacts, about: Known): Decision | undefined {
  const first = takeChosen(memory, seen, about) ?? takeSso(memory, seen, about) ?? takeLearned(memory, seen, about)
  if (first) return first
  if (!['method_choice', 'account_choice', 'organization_choice', 'passkey_prompt', 'external_wait'].includes(seen.kind)) return undefined
  const offer = byWhatIsKnown(memory, seen, about)
  if (!offer || !isTry(memory, `picked ${seen.signature}`, 1)) return undefined
  return choose(memory, seen, offer, about)
}

function byWhatIsKnown(memory: Memory, { kind, choices }: Interpretation, about: Known): PageChoice | undefined {
  const totp = choices.find(({ mfa }) => mfa === 'totp')
  if (totp && about.hasTotp) return totp
  const password = choices.find(({ mfa }) => mfa === 'password')
  if (password && known(memory, about, 'password', 'password')) return password
  if (kind === 'account_choice') {
    const own = choices.filter(({ label, description }) => about.isOwn(`${label} ${description ?? ''}`))
    return own.length === 1 ? own[0] : undefined
  }
  return (kind === 'method_choice' || kind === 'organization_choice') && choices.length === 1 ? choices[0] : undefined
}

/** Whether a value may be used for a field: it is known and not refused; and if it is a stored password, it was not sent before. */
export function known(memory: Memory, about: Known, key: string, role: PageField['role']): 'typed' | 'stored' | 'code' | undefined {
  if (memory.rejected.includes(key)) return undefined
  const source = about.sourceOf(key, role)
  return source === 'stored' && role === 'password' && memory.storedSent.includes(key) ? undefined : source
}

/** Refuses a page if its host, or that of a field, may not get values. */
export function byHost(memory: Memory, page: Pick<PageFacts, 'host'>, about: Known, fields: readonly Pick<PageField, 'host'>[]): Decision | undefined {
  const hosts = about.hosts(memory.sso)
  const refused = [page.host, ...fields.map(({ host }) => host)].find((host) => !isAllowedHost(host, hosts))
  if (refused === undefined) return undefined
  const what = refused === '' ? 'a frame that has no host' : refused
  return {
    do: 'fail',
    code: 'domain_not_allowed',
    message: `the login asks for values at ${what}, which is not among the allowed domains; add it to allowed_domains if it belongs to the site`,
  }
}
