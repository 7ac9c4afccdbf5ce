// Calls of one session over a kept connection of node:http: next to nothing of the client is in their times.
import { once } from 'node:events'
import { Agent, request, type IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Cloud } from '../test/support/cloud.ts'
import { whole } from './whole.ts'

const CALL_MS = 120_000

interface Sent {
  /** JSON. */
  body?: object
  /** Bytes as they come, with their number. */
  stream?: { content: Readable; bytes: number }
}

export interface Calls extends Disposable {
  /** Does one call of the computer controls and resolves when all of its answer is there. Calls at the same time have a connection each. */
  computer(name: string, body?: object): Promise<Buffer>
  /** Any call of the session, by method and path below it; gives its answer's stream. */
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
    // Before an answer has begun it is awaited below; then its stream tells of failures.
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
