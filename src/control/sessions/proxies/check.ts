// Checks a proxy: opens a tunnel through it, and fetches a page if one is given.
import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import type { Duplex } from 'node:stream'
import { connect as connectTls } from 'node:tls'
import { HOST_ALIAS } from '../../../base/own-addresses.ts'
import { abortable } from '../../../base/wait.ts'
import { reachable, Unreachable, type ReachSettings } from '../../../egress/reachable.ts'
import { UpstreamError } from '../../../egress/upstream-error.ts'
import { dial, known, type Upstream } from '../../../egress/upstream.ts'

/** Limit on a whole check, so that its caller always gets an answer. */
const CHECK_MS = 10_000
const MAX_BYTES = 64 * 1024

/** The target of a check without a page. IANA reserves the name for documentation, and its host answers on this port. */
const DEFAULT_TARGET = { host: 'example.com', port: 443 }

export interface Checked {
  status: 'available' | 'unavailable'
  /** Why it is unavailable. */
  reason?: string
  /** The client address that the page reports. */
  ip?: string
}

/** The tunnel through the proxy works, but the page could not be fetched. */
class NoPage extends Error {}

/**
 * Whether a proxy works: it connects to the host of `url`, which answers with any status. Without `url`: it connects to {@link DEFAULT_TARGET}. @throws the
 * signal's reason
 */
export async function checkUpstream(
  upstream: Upstream,
  url: string | undefined,
  settings: ReachSettings,
  signal: AbortSignal,
  ms = CHECK_MS,
): Promise<Checked> {
  const limit = AbortSignal.timeout(ms)
  try {
    const both = AbortSignal.any([signal, limit])
    const page = url === undefined ? undefined : new URL(url)
    const options = { reach: (host: string, until: AbortSignal) => reachable(host, settings, until), signal: both }
    const tunnel = await dial(upstream, page ? targetOf(page, settings) : DEFAULT_TARGET, options)
    try {
      if (!page) return { status: 'available' }
      const ip = addressIn(await abortable(fetchThrough(tunnel, page, upstream.ca), both))
      return { status: 'available', ...(ip !== undefined && { ip }) }
    } finally {
      tunnel.destroy()
    }
  } catch (error) {
    signal.throwIfAborted()
    return { status: 'unavailable', reason: reasonOf(error, limit) }
  }
}

function reasonOf(error: unknown, limit: AbortSignal): string {
  if (limit.aborted) return 'no answer in time'
  if (error instanceof UpstreamError) return error.cause instanceof Unreachable ? error.cause.message : error.message
  if (error instanceof NoPage || error instanceof Unreachable) return error.message
  throw error
}

/** The target as the proxy must get it. The proxy resolves names itself, but it cannot resolve the name of our machine's loopback. */
const targetOf = ({ hostname, protocol, port }: URL, { allowHostLoopback }: ReachSettings) => ({
  host: allowHostLoopback && hostname === HOST_ALIAS ? '127.0.0.1' : hostname.replace(/^\[(.*)\]$/, '$1'),
  port: port ? Number(port) : protocol === 'https:' ? 443 : 80,
})

async function fetchThrough(tunnel: Duplex, page: URL, ca: string | undefined): Promise<string> {
  try {
    const socket = page.protocol === 'https:' ? await secured(tunnel, page.hostname.replace(/^\[(.*)\]$/, '$1'), ca) : tunnel
    const asked = request({
      createConnection: () => socket,
      path: page.pathname + page.search,
      headers: { host: page.host, accept: '*/*', 'user-agent': 'Cob', connection: 'close' },
    })
    asked.on('error', () => {}) // also for errors after the answer; earlier errors are reported by the code below
    const answered = once(asked, 'response') as Promise<[IncomingMessage]>
    asked.end()
    const [response] = await answered
    let text = ''
    for await (const chunk of response.setEncoding('utf8') as AsyncIterable<string>) {
      text += chunk
      if (text.length > MAX_BYTES) break
    }
    return text.length > MAX_BYTES ? '' : text
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new NoPage(`the proxy works, but ${page.host} did not answer through it${code === undefined ? '' : ` (${code})`}`, { cause: error })
  }
}

async function secured(tunnel: Duplex, host: string, ca: string | undefined): Promise<Duplex> {
  const secure = connectTls({
    socket: tunnel,
    host,
    servername: isIP(host) ? '' : host,
    rejectUnauthorized: true,
    ...(ca !== undefined && { ca: known(ca) }),
  })
  secure.on('error', () => secure.destroy())
  await once(secure, 'secureConnect')
  return secure
}

/** The address in a page: its whole text, or `ip` of its JSON. */
function addressIn(text: string): string | undefined {
  const found = text.trimStart().startsWith('{') ? ipOf(text) : text.trim()
  return typeof found === 'string' && isIP(found) ? found : undefined
}

function ipOf(json: string): unknown {
  try {
    return (JSON.parse(json) as { ip?: unknown }).ip
  } catch {
    return undefined
  }
}
