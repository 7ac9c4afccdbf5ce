// Makes calls of one session over a keep-alive connection of node:http, so that the client adds almost no time.
import { once } from 'node:events'
import { Agent, request, type IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Cloud } from '../test/support/cloud.ts'
import { whole } from './whole.ts'

const CALL_MS = 120_000

interface Sent {
  /** A JSON body. */
  body?: object
  /** A byte stream and its length. */
  stream?: { content: Readable; bytes: number }
}

export interface Calls extends Disposable {
  /** Makes one computer call; resolves when the whole answer has arrived. Concurrent calls use separate connections. */
  computer(name: string, body?: object): Promise<Buffer>
  /** Makes any call of the session, by method and path below it; returns the answer's stream. */
  call(method: string, path: string, sent?: Sent): Promise<IncomingMessage>
}

export function openCalls({ url, key }: Pick<Cloud, 'url' | 'key'>, id: string, signal: AbortSignal): Calls {
  const agent = new Agent({ keepAlive: true })
  const { hostname, port } = new URL(url)
  const call: Calls['call'] = async (method, path, { body, stream } = {}) => {
    const text = body ? JSON.stringify(body) : ''
    const headers = {
      authorization: `Bearer ${key}`,
      'content-length': stream?.bytes ?? Buffer.byteLength(text),
      ...(body && { 'content-type': 'application/json' }),
      ...(stream && { 'content-type': 'application/octet-stream' }),
    }
    const outgoing = request({ agent, hostname, port, path: `/browsers/${id}/${path}`, method, headers, signal, timeout: CALL_MS })
    outgoing.on('timeout', () => outgoing.destroy(new Error(`${path} did not answer within ${CALL_MS} ms`)))
    // Errors before the answer reject the promise below. The stream reports later errors.
    outgoing.on('error', () => {})
    const answered = once(outgoing, 'response')
    if (stream) await pipeline(stream.content, outgoing)
    else outgoing.end(text)
    const [response] = (await answered) as [IncomingMessage]
    if ((response.statusCode ?? 0) >= 300) throw new Error(`${method} ${path} answered ${response.statusCode}: ${(await whole(response)).toString()}`)
    return response
  }
  return {
    call,
    computer: async (name, body) => whole(await call('POST', `computer/${name}`, body && { body })),
    [Symbol.dispose]: () => agent.destroy(),
  }
}
