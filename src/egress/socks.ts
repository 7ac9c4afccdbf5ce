// The client's side of SOCKS5 (RFC 1928), with a user name and a password (RFC 1929).
import { isIP } from 'node:net'
import type { Duplex } from 'node:stream'
import { UpstreamError } from './upstream-error.ts'

const VERSION = 5
const NO_AUTH = 0
const PASSWORD_AUTH = 2
const NONE_ACCEPTED = 0xff
const CONNECT = 1
const IPV4 = 1
const NAME = 3
const IPV6 = 4

/** Names, user names and passwords are preceded by one byte with their length. */
const MAX_TEXT_BYTES = 255

const REPLIES = [
  '',
  'general failure',
  'not allowed by its rules',
  'network unreachable',
  'host unreachable',
  'connection refused',
  'TTL expired',
  'command not supported',
  'address type not supported',
]

/** Asks a SOCKS5 proxy for a connection to a target. The proxy resolves names. @throws UpstreamError; an Error when the connection ends */
export async function socksHandshake(
  socket: Duplex,
  { username, password = '' }: { username?: string; password?: string },
  target: { host: string; port: number },
): Promise<Duplex> {
  using reader = new Reader(socket)
  const methods = username === undefined ? [NO_AUTH] : [NO_AUTH, PASSWORD_AUTH]
  socket.write(Buffer.from([VERSION, methods.length, ...methods]))
  const [version, method] = await reader.take(2)
  if (version !== VERSION) throw new UpstreamError('refused', 'the proxy does not speak SOCKS5')
  if (method === PASSWORD_AUTH && username !== undefined) {
    socket.write(Buffer.concat([Buffer.from([1]), counted(username), counted(password)]))
    const [, refused] = await reader.take(2)
    if (refused !== 0) throw new UpstreamError('credentials', 'the proxy does not accept the user name and the password')
  } else if (method === NONE_ACCEPTED) {
    throw new UpstreamError(
      'credentials',
      username === undefined ? 'the proxy wants a user name and a password' : 'the proxy does not accept a user name and a password',
    )
  } else if (method !== NO_AUTH) {
    throw new UpstreamError('refused', 'the proxy chose a way to log in that was not offered')
  }
  const port = Buffer.from([target.port >> 8, target.port & 255])
  socket.write(Buffer.concat([Buffer.from([VERSION, CONNECT, 0]), addressOf(target.host), port]))
  const [, reply = 1, , type] = await reader.take(4)
  if (reply !== 0) throw new UpstreamError('refused', `the proxy does not connect: ${REPLIES[reply] ?? `reply ${reply}`}`, { status: reply })
  // The proxy's own address for the connection is not needed.
  const length = type === IPV4 ? 4 : type === IPV6 ? 16 : type === NAME ? (await reader.take(1))[0]! : undefined
  if (length === undefined) throw new UpstreamError('refused', 'the proxy does not speak SOCKS5')
  await reader.take(length + port.length)
  return socket
}

function addressOf(host: string): Buffer {
  const family = isIP(host)
  if (family === 4) return Buffer.from([IPV4, ...host.split('.').map(Number)])
  if (family === 6) return Buffer.from([IPV6, ...bytes6(host)])
  return Buffer.concat([Buffer.from([NAME]), counted(host)])
}

/** The 16 bytes of an IPv6 address. */
function bytes6(address: string): number[] {
  const [plain = ''] = address.split('%')
  // The URL parser writes an IPv4 tail as two groups.
  const [before = '', after] = new URL(`http://[${plain}]`).hostname.slice(1, -1).split('::')
  const groups = (text: string) => (text === '' ? [] : text.split(':'))
  const [head, tail] = [groups(before), groups(after ?? '')]
  const all = [...head, ...Array<string>(8 - head.length - tail.length).fill('0'), ...tail]
  return all.flatMap((group) => [parseInt(group, 16) >> 8, parseInt(group, 16) & 255])
}

function counted(text: string): Buffer {
  const bytes = Buffer.from(text)
  if (bytes.length > MAX_TEXT_BYTES) throw new UpstreamError('refused', `SOCKS5 allows at most ${MAX_TEXT_BYTES} bytes for a host, a user name or a password`)
  return Buffer.concat([Buffer.from([bytes.length]), bytes])
}

/** Reads exact numbers of bytes; what comes after them stays in the socket. The caller limits the time. */
class Reader implements Disposable {
  readonly #socket: Duplex
  #changed = Promise.withResolvers<void>()
  // One listener for all reads. Node emits `readable` again for each new listener, so a listener per read would make an endless loop.
  readonly #onChange = () => {
    this.#changed.resolve()
    this.#changed = Promise.withResolvers()
  }

  constructor(socket: Duplex) {
    this.#socket = socket
    for (const event of EVENTS) socket.on(event, this.#onChange)
  }

  async take(length: number): Promise<Buffer> {
    const socket = this.#socket
    while (length > 0) {
      const { promise } = this.#changed
      const bytes = socket.read(length) as Buffer | null
      if (bytes?.length === length) return bytes
      if (socket.readableEnded || socket.destroyed || bytes !== null) throw new Error('the connection ended')
      await promise
    }
    return Buffer.alloc(0)
  }

  [Symbol.dispose](): void {
    for (const event of EVENTS) this.#socket.off(event, this.#onChange)
  }
}

const EVENTS = ['readable', 'end', 'close'] as const
