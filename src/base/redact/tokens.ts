// Secrets that are recognized by their own form: keys and tokens of services, including ours.

/** Our keys, and our tokens and codes of OAuth, wherever they are. Anybody may send any text, so each part takes linear time. */
const KEYS = String.raw`cob_(?:[0-9a-f]{40}|(?:oc|at|rt)_[0-9a-f]{64})`
/** A JWT with its three parts, and the start of the word in which it begins. It is searched for from the beginning of a word only. */
const JWTS = String.raw`(?<![\w-])(?=[\w-]*eyJ)[\w-]+\.[\w-]+\.[\w-]+`
const SERVICES = String.raw`(?<![A-Za-z\d])(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|sk[-_](?=[\w-]{0,100}\d)[\w-]{20,}|xox[abprs]-[\w-]{8,}|AKIA[A-Z\d]{16}|AIza[\w-]{35}|glpat-[\w-]{10,})`
/** Tokens of live views: an id, a letter, 192 bits. In pages' own texts, hashes look the same. */
const LINKS = String.raw`[a-z][a-z0-9]{23}[cw][\w-]{32}`

/** Without JWTs, which are found also when they are cut (find.ts). */
export const TOKENS = new RegExp([KEYS, SERVICES].join('|'), 'g')
const IN_REQUESTS = new RegExp([KEYS, JWTS, SERVICES, LINKS].join('|'), 'g')

/** A text from a caller, with a mark in place of each token. */
export const withoutTokens = (text: string, mark: string): string => text.replaceAll(IN_REQUESTS, mark)
