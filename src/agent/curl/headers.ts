// Rules for headers: how a caller's are merged with the browser's, which ones survive a redirect, and which ones of an answer callers get.
import type { IncomingHttpHeaders } from 'node:http'
import { listed } from '../../http/endpoint.ts'

export type Header = [name: string, value: string]

/** The order in which Chromium sends its own headers. A debugging client gets them sorted by name. */
const CHROMIUM_ORDER = ['sec-ch-ua', 'sec-ch-ua-mobile', 'sec-ch-ua-platform', 'upgrade-insecure-requests', 'user-agent', 'accept']

/** Headers that describe a body. They are dropped when a redirect drops the body (RFC 9110, 15.4). */
const OF_BODIES = ['content-type', 'content-length', 'content-encoding', 'content-language', 'content-location']

/**
 * The headers of a request: the browser's in its order, each replaced by the caller's of the same name, then the caller's other
 * headers. Cookies are joined. Undefined when nothing changes.
 */
export function merge(own: Readonly<Record<string, string>>, given: readonly Header[]): Header[] | undefined {
  if (given.length === 0) return undefined
  const left = new Map(given.map(([name, value]) => [name.toLowerCase(), [name, value] as Header]))
  const take = (name: string) => {
    const header = left.get(name)
    left.delete(name)
    return header
  }
  const cookies = take('cookie')
  const rank = (name: string) => (CHROMIUM_ORDER.indexOf(name.toLowerCase()) + CHROMIUM_ORDER.length + 1) % (CHROMIUM_ORDER.length + 1)
  const others = Object.entries(own).filter(([name]) => name.toLowerCase() !== 'cookie')
  const jar = Object.entries(own).find(([name]) => name.toLowerCase() === 'cookie')?.[1]
  return [
    ...others.toSorted(([a], [b]) => rank(a) - rank(b)).map(([name, value]): Header => [name, take(name.toLowerCase())?.[1] ?? value]),
    ...left.values(),
    // If the caller gives no cookies, leave the header out: the browser then adds its own.
    ...(cookies ? [['Cookie', joinCookies(jar ?? '', cookies[1])] as Header] : []),
  ]
}

/** Joins two Cookie headers. For cookies of the same name, the second header wins. */
export function joinCookies(first: string, second: string): string {
  const pairs = (text: string) =>
    text
      .split(';')
      .map((pair) => pair.trim())
      .filter(Boolean)
  const nameOf = (pair: string) => pair.split('=', 1)[0]!.trim()
  const replaced = new Set(pairs(second).map(nameOf))
  return [...pairs(first).filter((pair) => !replaced.has(nameOf(pair))), ...pairs(second)].join('; ')
}

/** The caller's headers that are sent to a redirect's target, as in the Fetch standard. */
export function afterRedirect(given: readonly Header[], { sameOrigin, bodyDropped }: { sameOrigin: boolean; bodyDropped: boolean }): Header[] {
  const dropped = [...(sameOrigin ? [] : ['authorization', 'cookie', 'proxy-authorization']), ...(bodyDropped ? OF_BODIES : [])]
  return given.filter(([name]) => !dropped.includes(name.toLowerCase()))
}

/** Content encodings that Chromium decodes. A body with any other encoding stays encoded. */
const DECODED = ['gzip', 'x-gzip', 'deflate', 'br', 'zstd']

/** Hop-by-hop headers, and headers that a proxy in front of the service acts on. http/untrusted.ts removes those that affect the service's origin. */
const NOT_PASSED_ON = /^(connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|x-accel-.*|x-sendfile|x-request-id)$/

/** The headers of a target's answer that are sent to the caller with its decoded body. */
export function passedOn(headers: readonly Header[]): Record<string, string | string[]> {
  const byName = Map.groupBy(headers, ([name]) => name.toLowerCase())
  const named = (byName.get('connection') ?? []).flatMap(([, value]) => listed(value))
  const encodings = (byName.get('content-encoding') ?? []).flatMap(([, value]) => listed(value)).filter(Boolean)
  const decoded = encodings.length > 0 && encodings.every((name) => DECODED.includes(name))
  const result: Record<string, string | string[]> = Object.create(null)
  for (const [name, same] of byName) {
    if (NOT_PASSED_ON.test(name) || named.includes(name) || (decoded && /^content-(encoding|length)$/.test(name))) continue
    const values = same.map(([, value]) => writable(value)).filter((value) => !/[^\t\x20-\x7e\x80-\xff]/.test(value))
    if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name) || values.length === 0) continue
    result[name] = name === 'set-cookie' ? values : values.join(name === 'content-length' ? '' : ', ')
  }
  return result
}

// HTTP/1 headers are bytes. Text outside Latin-1 is sent as UTF-8, as it was received.
const writable = (value: string): string => (/[^\0-\xff]/.test(value) ? Buffer.from(value).toString('latin1') : value)

/** All values of each header, by a name written like `Content-Type`. */
export function byCanonicalName(headers: readonly Header[]): Record<string, string[]> {
  const result: Record<string, string[]> = Object.create(null)
  for (const [name, value] of headers) (result[name.toLowerCase().replaceAll(/(^|-)[a-z]/g, (letter) => letter.toUpperCase())] ??= []).push(value)
  return result
}

/** Headers of one hop, of the path to this service, or of the client library. */
const NOT_SENT_ON =
  /^(host|connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|expect|content-length|accept-encoding|sec-.*|x-stainless-.*|x-kernel-.*|x-request-id|x-real-ip|x-forwarded-.*|forwarded|via)$/

/** Default User-Agents of HTTP libraries. Any other value was set on purpose and is sent to the target. */
const LIBRARIES =
  /^(kernel|node|node-fetch|undici|deno|bun|axios|got|python|python-requests|python-httpx|python-urllib|aiohttp|go-http-client|curl|wget|java|okhttp)\b/i

/** The headers of a request to this service that are sent to its target. */
export function sentOn(headers: IncomingHttpHeaders): Header[] {
  return Object.entries(headers).flatMap(([name, value]) => {
    const text = Array.isArray(value) ? value.join(', ') : (value ?? '')
    const isDefault = (/^(accept|accept-language)$/.test(name) && /^\*(\/\*)?$/.test(text)) || (name === 'user-agent' && LIBRARIES.test(text))
    return NOT_SENT_ON.test(name) || isDefault ? [] : [[name, text] as Header]
  })
}
