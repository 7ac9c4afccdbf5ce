// Recognises buttons that sign in through another service.
import { placeOf, type Seen, type View } from './view.ts'
import { fold, hasAny, tokensOf, wordsOf } from './words.ts'

/** Names for people, and their names in the API. If two match, the longer one counts. */
const BRANDS: Record<string, string> = {
  google: 'google',
  gmail: 'google',
  github: 'github',
  gitlab: 'gitlab',
  bitbucket: 'bitbucket',
  atlassian: 'atlassian',
  microsoft: 'microsoft',
  office: 'microsoft',
  'office 365': 'microsoft',
  outlook: 'microsoft',
  entra: 'microsoft',
  azure: 'microsoft',
  'azure ad': 'microsoft',
  apple: 'apple',
  facebook: 'facebook',
  twitter: 'twitter',
  x: 'twitter',
  linkedin: 'linkedin',
  slack: 'slack',
  discord: 'discord',
  amazon: 'amazon',
  okta: 'okta',
  auth0: 'auth0',
  onelogin: 'onelogin',
  yahoo: 'yahoo',
  paypal: 'paypal',
  twitch: 'twitch',
  spotify: 'spotify',
  steam: 'steam',
  salesforce: 'salesforce',
  dropbox: 'dropbox',
  notion: 'notion',
  figma: 'figma',
  zoom: 'zoom',
  keycloak: 'keycloak',
  duo: 'duo',
  'ping identity': 'pingidentity',
  orcid: 'orcid',
  wechat: 'wechat',
  微信: 'wechat',
  qq: 'qq',
  weibo: 'weibo',
  alipay: 'alipay',
  支付宝: 'alipay',
  line: 'line',
  kakao: 'kakao',
  카카오: 'kakao',
  naver: 'naver',
  네이버: 'naver',
  vk: 'vk',
  вконтакте: 'vk',
  яндекс: 'yandex',
  yandex: 'yandex',
  baidu: 'baidu',
  itsme: 'itsme',
  bankid: 'bankid',
  freja: 'freja',
  digid: 'digid',
  seznam: 'seznam',
}

/** Hosts where services let people sign in. A link to another page of theirs is only a link. */
const PROVIDER_HOSTS: [pattern: RegExp, provider: string][] = [
  [/^accounts\.google\.com$/, 'google'],
  [/^login\.(microsoftonline\.com|live\.com|windows\.net)$/, 'microsoft'],
  [/^appleid\.apple\.com$/, 'apple'],
  [/(^|\.)okta(preview)?\.com$/, 'okta'],
  [/(^|\.)auth0\.com$/, 'auth0'],
  [/(^|\.)onelogin\.com$/, 'onelogin'],
  [/(^|\.)ping(one|identity)\.com$/, 'pingidentity'],
  [/(^|\.)amazoncognito\.com$/, 'cognito'],
]
/** Other services have their sign-in below their usual host. */
const OAUTH_PATH = /(^|\/)(oauth2?|openid|oidc|saml2?|sso|auth|authorize|cas|shibboleth|adfs|social)([/._-]|$)/i
const AUTH_PATH = /(^|\/)(oauth2?|openid|oidc|saml2?|sso|auth|login|signin|sign_in|connect|social|account|accounts|users|user)([/._-]|$)/i

/** Login methods that are not another service: "continue with email". */
const OWN_WAY = ['email', 'phone', 'password', 'code', 'passkey', 'user', 'qr', 'by_push', 'sms', 'authenticator', 'backup_code'] as const

/** The service of a button or link: a known name, `sso` for a single sign-on without a name, or a word from its label; undefined for anything else. */
export function ssoProviderOf(view: View, seen: Seen): string | undefined {
  // Cache it: several rules need it, for all forms of a page.
  if (!known.has(seen)) known.set(seen, findProvider(view, seen))
  return known.get(seen)
}
/** The keys belong to one view. */
const known = new WeakMap<Seen, string | undefined>()

function findProvider(view: View, seen: Seen): string | undefined {
  const { control, label } = seen
  if (hasAny(label, 'share', 'forgot', 'sign_out', 'help', 'resend')) return undefined
  const text = control.label
  if (text.length > 80) return undefined
  const target = targetOf(view, seen)
  const brand = brandOf(text)
  const isWith = isSignInWith(text)
  const provider = target.host !== null ? PROVIDER_HOSTS.find(([pattern]) => pattern.test(target.host!))?.[1] : undefined
  if (provider) return provider
  const tokens = tokensOf(text)
  if (brand !== undefined) {
    const isElsewhere = target.host !== null && target.host !== view.model.host
    if (isElsewhere) return isWith || OAUTH_PATH.test(target.path) ? brand : undefined
    // "Google" alone, on a page that asks to sign in.
    if (isWith || AUTH_PATH.test(target.path)) return brand
    const isShort = tokens.length <= 2
    return isShort && (control.tag !== 'a' || target.path !== '') && speaksOfSignIn(view) ? brand : undefined
  }
  const inPath = AUTH_PATH.test(target.path) ? brandOf(target.path.replaceAll(/[^\p{L}\p{N}]+/gu, ' ')) : undefined
  if (inPath !== undefined && (text === '' || isWith)) return inPath
  const named = isWith && !hasAny(label, ...OWN_WAY) ? other(text) : undefined
  if (named !== undefined) return named
  if (label.has('sso') && !hasAny(label, 'sign_up')) return 'sso'
  return undefined
}

const speaksOfSignIn = (view: View): boolean =>
  hasAny(view.title, 'sign_in') || hasAny(view.headings, 'sign_in') || view.path.has('sign_in') || view.body.has('sign_in')

/** The target of a control: its own address, or that of its form if the form has no text field. */
function targetOf(view: View, { control }: Seen): { host: string | null; path: string } {
  if (control.href_host !== null || control.href_path !== null) return { host: control.href_host, path: control.href_path ?? '' }
  if (control.form === null || !control.submits) return { host: null, path: '' }
  if (view.fields.some((field) => placeOf(field.control) === placeOf(control))) return { host: null, path: '' }
  const form = view.model.forms[control.form]
  return { host: form?.action_host ?? null, path: form?.action_path ?? '' }
}

const brandCache = Object.entries(BRANDS)
  .map(([name, provider]) => [tokensOf(name).join(' '), provider] as const)
  .toSorted(([a], [b]) => b.length - a.length)

/** The service in a text. */
export function brandOf(text: string): string | undefined {
  const plain = ` ${tokensOf(text).join(' ')} `
  const found = brandCache.find(([name]) => (/^[\p{ASCII}]*$/u.test(name) ? plain.includes(` ${name} `) : plain.includes(name)))
  if (found) return found[1]
  // In a script without spaces, the name is joined to the next word: "Googleでログイン".
  const joined = /[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]/.test(text) ? tokensOf(text.replaceAll(/[^\p{ASCII}]/gu, ' ')) : []
  return joined.map((token) => BRANDS[token]).find((provider) => provider !== undefined)
}

/** Whether a text means "Sign in with …", in the word order of any language. */
function isSignInWith(text: string): boolean {
  const words = wordsOf(text)
  if (!words.has('sign_with')) return false
  return (
    hasAny(words, 'sign_in', 'next') ||
    /\b(connect|sign ?up|authenticate) (with|using)\b/.test(fold(text)) ||
    /[\u3040-\u9fff\uac00-\ud7af\u0600-\u06ff]/.test(text)
  )
}

const NOBODY = new Set([
  'a',
  'an',
  'the',
  'your',
  'my',
  'another',
  'other',
  'one',
  'different',
  'ein',
  'eine',
  'einem',
  'einer',
  'un',
  'une',
  'una',
  'um',
  'uma',
  'een',
  'votre',
  'ihrem',
  'tu',
  'su',
])

/** A word made of the text after "with". */
function other(text: string): string | undefined {
  const after = /\b(?:with|using|via|mit|uber|avec|con|com|met|przez|pres|med|ile|через|помощью)\s+(.+)$/u.exec(fold(text))?.[1]
  if (after === undefined) return undefined
  const tokens = tokensOf(after)
  // "With a device", "with another account" name no service.
  if (tokens[0] === undefined || NOBODY.has(tokens[0])) return undefined
  const word = tokens.slice(0, 4).join('_').slice(0, 40)
  return word === '' ? undefined : word
}
