// Texts without personal data and entered values, for readers who may see a page's own words only.

/** A piece of a text that may be an address. */
const PIECE = /[^\s"'<>]+/g
/** The name and password in an address. */
const LOGIN = /:\/\/[^\s/?#@"'<>]*@/g
/**
 * The value of a parameter, also in an address without a host, and in a fragment. A name ends where the next one begins, so a search is short for names of any
 * length.
 */
const VALUE = /([?&;#][^\s=&;#"'<>?]*=)[^\s&;#"'<>]+/g
/** An address of this kind contains the document itself: the whole text when it begins with one, or a piece of another text. */
const DOCUMENT = /^\s*((?:data|blob|javascript):).+$|\b((?:data|blob|javascript):)[^\s"'<>]+/gis

/** The query of any address, because many are written without a host. */
const withoutFragment = (piece: string): string => piece.replace(/#.*$/s, piece.startsWith('#') ? '#…' : '')

/** A text whose addresses have no secrets: names of parameters stay, their values become an ellipsis, and fragments are left out. */
export const withoutValues = (text: string): string => withoutParameters(text.replaceAll(PIECE, withoutFragment))

export const withoutParameters = (text: string): string => text.replaceAll(DOCUMENT, '$1$2…').replaceAll(LOGIN, '://').replaceAll(VALUE, '$1…')

/** The user's part of an e-mail address may be of any length. A masked address (`j***@example.com`) identifies a person, too. */
const EMAIL = /[\p{L}\p{N}._%+*•-]{1,64}@[\p{L}\p{N}.*•-]{1,190}/gu
/** Phone numbers, years of birth, accounts. A single digit ("6-digit code", "step 2 of 3") is a word of the page. */
const NUMBER = /\p{N}(?:[\s.()/-]?\p{N})+|[*•●]{2,40}[\s\p{N}-]{0,20}\p{N}/gu
const WEB_ADDRESS = /\bhttps?:\/\/[^\s"'<>]{1,2000}/giu
/** Anything that may be a key or a token: long, with letters and digits. */
const MAY_BE_TOKEN = /\b(?=[\w-]{0,200}\d)(?=[\w-]{0,200}[A-Za-z])[\w-]{16,}\b/gu

/** A text without queries of web addresses, e-mail addresses, numbers and tokens. */
export function withoutPersonal(text: string): string {
  return text
    .replaceAll(WEB_ADDRESS, (address) => (URL.canParse(address) ? `[link to ${new URL(address).hostname}]` : '[link]'))
    .replaceAll(EMAIL, '[address]')
    .replaceAll(MAY_BE_TOKEN, '[token]')
    .replaceAll(NUMBER, '[number]')
}
