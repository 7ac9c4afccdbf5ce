// Names whose values are secrets: of headers, query parameters, cookies, and fields of forms, JSON and XML.

/**
 * - `value`: a text or number next to the name is a secret
 * - `all`: also everything in an object or list next to it
 * - `line`: also the rest of its line, as in `Cookie: a=b; c=d`
 * - `tokens`: as `all`, but a number is a count of tokens, as in APIs of language models
 */
export type SecretKind = 'value' | 'all' | 'line' | 'tokens'

/** Without accents. */
function simple(name: string): string {
  return name.normalize('NFKD').replaceAll(/\p{M}/gu, '')
}

/** Parts of the names of fields in which people enter secrets, in lower case and without punctuation. */
export const FIELD_PARTS =
  'password passwd passphrase passcode passwort passkey kennwort geheim contrase senha motdepasse parola wachtwoord haslo пароль 密码 密碼 パスワード 비밀번호 ' +
  'secret token credential apikey accesskey privatekey cardnumber creditcard ccnumber ccnum securitycode verificationcode twofactorcode authcode onetimecode ' +
  'onetimepass otpcode smscode recoverycode backupcode seedphrase mnemonic socialsecurity'
/** As {@link FIELD_PARTS}, but only as whole words: they are parts of ordinary words as well. */
export const FIELD_WORDS = 'pass pwd psw pw pword pin otp totp hotp mfa 2fa tfa tan cvv cvc csc ssn iban code2fa'

/** The same of all names, also without accents. */
const PARTS = new RegExp(
  simple(`${FIELD_PARTS} jwt signature authorization sessionid sessid sessionkey csrf xsrf samlresponse samlrequest codeverifier pincode`).replaceAll(' ', '|'),
)
const WORDS = new Set(`${FIELD_WORDS} userpass userpwd userpw mfacode`.split(' '))
/** The kind of such a secret. */
const ABOUT = /(?:^| )(?:type|count|limit|enabled|required|method|status|length|hint|url|uri|policy|expires|through|rate)(?: at| in)?$/

/** Names that are secrets only as a whole: their parts are in ordinary words. */
const WHOLE = new Set('auth xauth authentication bearer sig hmac sid sess session ssid lsid connect.sid assertion ticket'.split(' '))

const LINES = new Set(['cookie', 'setcookie', 'cookie2', 'setcookie2', 'authorization', 'proxyauthorization'])

/** Words that describe a token. */
const HARMLESS = /^(?:token|signature|secret)s?(?:type|count|limit|version|name|algorithm|expir\w*)$|passwordless|^(?:sessionid|token)length$/

/** Of longer names the end is judged. */
const MAX_NAME = 64
const MAX_KNOWN = 2_000
const known = new Map<string, SecretKind | undefined>()

/** The kind of a name's value; undefined when it is not a secret. */
export function secretKind(given: string): SecretKind | undefined {
  const name = given.length > MAX_NAME ? given.slice(-MAX_NAME) : given
  if (known.has(name)) return known.get(name)
  // Pages choose names, so the number of kept ones is limited.
  if (known.size >= MAX_KNOWN) known.clear()
  const kind = judge(name)
  known.set(name, kind)
  return kind
}

function judge(name: string): SecretKind | undefined {
  const lower = name.toLowerCase()
  const plain = simple(lower).replaceAll(/[^\p{L}\d]/gu, '')
  const last = lower.slice(lower.lastIndexOf('.') + 1).replaceAll(/[^a-z\d]/g, '')
  if (LINES.has(plain) || LINES.has(last)) return 'line'
  if (HARMLESS.test(plain)) return undefined
  if (PARTS.test(plain)) return plain.endsWith('tokens') ? 'tokens' : 'all'
  if (WHOLE.has(plain) || WHOLE.has(last) || WHOLE.has(lower)) return 'value'
  const words = name
    .replaceAll(/([\p{Ll}\d])(\p{Lu})/gu, '$1 $2')
    .toLowerCase()
    .split(/[^\p{L}\d]+/u)
  const isSecret = WORDS.has(plain) || words.some((word) => WORDS.has(word) || WORDS.has(word.replace(/\d+$/, '')))
  return isSecret && !ABOUT.test(words.join(' ')) ? 'all' : undefined
}
