// Finds the item of a list for a domain. Hosts are compared label by label in their ASCII form (IDNA), never by parts of texts.
import { domainToASCII } from 'node:url'
import { getPublicSuffix } from 'tldts'

/** The host in a stored URL, with or without scheme, port and path; `*.` stays in front. Undefined when it has none. */
export function hostOf(url: string): string | undefined {
  const text = url.trim()
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(text)
  if (scheme && !/^https?$/i.test(scheme[1]!)) return undefined
  const rest = text.slice(scheme?.[0].length ?? 0)
  const isPattern = rest.startsWith('*.')
  const bare = `http://${isPattern ? rest.slice(2) : rest}`
  if (!URL.canParse(bare)) return undefined
  const { hostname, username, password } = new URL(bare)
  // "bank.example@other.example" looks like one host and is another; "mailto:a@b" has none.
  if (username || password || hostname === '') return undefined
  const host = hostname.replace(/\.$/, '')
  if (host.includes('*') || host === '') return undefined
  return isPattern ? `*.${host}` : host
}

/** The ASCII form of a domain. Undefined when the text is none. */
export function asDomain(domain: string): string | undefined {
  const host = hostOf(domain)
  return host === undefined || host.startsWith('*.') || domainToASCII(host) === '' ? (host?.startsWith('[') ? host : undefined) : host
}

const EXACT = 0
const isBelow = (host: string, parent: string): boolean => host.endsWith(`.${parent}`)
const isAddress = (host: string): boolean => host.startsWith('[') || /^[\d.]+$/.test(host)

/**
 * How well a host of an item matches a domain: 0 when they are equal; otherwise the number of labels by which the domain is below it, for example the item of
 * `example.com` or `*.example.com` for `login.example.com`. Undefined when it does not match. An item with a single label (`com`, `localhost`) matches only
 * that host.
 */
function distance(domain: string, host: string): number | undefined {
  const isPattern = host.startsWith('*.')
  const base = isPattern ? host.slice(2) : host
  if (!isPattern && domain === base) return EXACT
  if (isAddress(domain) || !isBelow(domain, base) || !hasOwnNames(base, isPattern)) return undefined
  return domain.split('.').length - base.split('.').length
}

/**
 * Whether the names below a host belong to the same owner. Names below "co.uk" or "github.io" belong to others. A pattern below the second kind is its owner's
 * own decision.
 */
const hasOwnNames = (base: string, isPattern: boolean): boolean =>
  !isAddress(base) && base.includes('.') && getPublicSuffix(base, { allowPrivateDomains: !isPattern }) !== base

/** Whether an item with these URLs matches a domain. */
export function fits(domain: string, urls: readonly string[]): boolean {
  const wanted = asDomain(domain)
  return wanted !== undefined && urls.some((url) => distance(wanted, hostOf(url) ?? '') !== undefined)
}

/** The hosts for which an item with these URLs may be used; `*.` matches every name below. */
export const hostsOf = (urls: readonly string[]): string[] =>
  urls.flatMap((url) => {
    const host = hostOf(url) ?? ''
    const isPattern = host.startsWith('*.')
    const base = isPattern ? host.slice(2) : host
    if (base === '') return []
    return [...(isPattern ? [] : [base]), ...(hasOwnNames(base, isPattern) ? [`*.${base}`] : [])]
  })

/**
 * The best item for a domain: first of exactly that host, then of the nearest parent domain; then by the order of `lists` (of providers), then by title. The
 * result is always the same.
 */
export function bestMatch<T extends { title: string; id: string; urls: readonly string[] }>(domain: string, lists: readonly (readonly T[])[]): T | undefined {
  const wanted = asDomain(domain)
  if (wanted === undefined) return undefined
  const found = lists.flatMap((items, order) =>
    items.flatMap((item) => {
      const fits = item.urls.flatMap((url) => distance(wanted, hostOf(url) ?? '') ?? [])
      return fits.length > 0 ? [{ item, order, far: Math.min(...fits) }] : []
    }),
  )
  return found.toSorted((a, b) => a.far - b.far || a.order - b.order || compare(a.item.title, b.item.title) || compare(a.item.id, b.item.id))[0]?.item
}

/** By code units, so that the result does not depend on the machine's language. */
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)
