// Which item of a list is meant by a domain. Hosts are compared label by label in their ASCII form (IDNA), never by parts of texts.
import { domainToASCII } from 'node:url'
import { getPublicSuffix } from 'tldts'

/** The host that a stored URL names, with or without scheme, port and path; `*.` stays in front. Undefined when it names none. */
export function hostOf(url: string): string | undefined {
  const text = url.trim()
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(text)
  if (scheme && !/^https?$/i.test(scheme[1]!)) return undefined
  const rest = text.slice(scheme?.[0].length ?? 0)
  const isPattern = rest.startsWith('*.')
  const bare = `http://${isPattern ? rest.slice(2) : rest}`
  if (!URL.canParse(bare)) return undefined
  const { hostname, username, password } = new URL(bare)
  // "bank.example@other.example" reads as one host and is another; "mailto:a@b" is none.
  if (username || password || hostname === '') return undefined
  const host = hostname.replace(/\.$/, '')
  if (host.includes('*') || host === '') return undefined
  return isPattern ? `*.${host}` : host
}

/** The ASCII form of a domain. Undefined when it is none. */
export function asDomain(domain: string): string | undefined {
  const host = hostOf(domain)
  return host === undefined || host.startsWith('*.') || domainToASCII(host) === '' ? (host?.startsWith('[') ? host : undefined) : host
}

const EXACT = 0
const isBelow = (host: string, parent: string): boolean => host.endsWith(`.${parent}`)
const isAddress = (host: string): boolean => host.startsWith('[') || /^[\d.]+$/.test(host)

/**
 * How well a host of an item fits a domain: 0 when it is the same; else how many labels below it the domain is, as with the item of `example.com` for `login.example.com`
 * and that of `*.example.com`. Undefined: not at all. An item of a single label (`com`, `localhost`) is meant for that host alone.
 */
function distance(domain: string, host: string): number | undefined {
  const isPattern = host.startsWith('*.')
  const base = isPattern ? host.slice(2) : host
  if (!isPattern && domain === base) return EXACT
  if (isAddress(domain) || !isBelow(domain, base) || !hasOwnNames(base, isPattern)) return undefined
  return domain.split('.').length - base.split('.').length
}

/** Whether the names below a host belong to the same people. What is below "co.uk" or "github.io" belongs to others. A pattern for the second kind is somebody's own wish. */
const hasOwnNames = (base: string, isPattern: boolean): boolean =>
  !isAddress(base) && base.includes('.') && getPublicSuffix(base, { allowPrivateDomains: !isPattern }) !== base

/** Whether an item with these URLs is meant by a domain. */
export function fits(domain: string, urls: readonly string[]): boolean {
  const wanted = asDomain(domain)
  return wanted !== undefined && urls.some((url) => distance(wanted, hostOf(url) ?? '') !== undefined)
}

/** The hosts that an item with these URLs is meant for; `*.` stands for every name below. */
export const hostsOf = (urls: readonly string[]): string[] =>
  urls.flatMap((url) => {
    const host = hostOf(url) ?? ''
    const isPattern = host.startsWith('*.')
    const base = isPattern ? host.slice(2) : host
    if (base === '') return []
    return [...(isPattern ? [] : [base]), ...(hasOwnNames(base, isPattern) ? [`*.${base}`] : [])]
  })

/**
 * The item that is meant by a domain: one of exactly that host first, then of the nearest parent domain; then by the order of `lists` (of providers), then by title. The same
 * every time.
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

/** By code units, so that it does not depend on the machine's language. */
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)
