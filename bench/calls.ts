// Calls of one session's computer controls over a kept connection of node:http: next to nothing of the client is in their times.
import { once } from 'node:events'
import { Agent, request, type IncomingMessage } from 'node:http'
import type { Cloud } from '../test/support/cloud.ts'
import { whole } from './whole.ts'

const CALL_MS = 120_000

export interface Calls extends Disposable {
  /** Does one call below /computer and resolves when all of its answer is there. Calls at the same time have a connection each. */
  computer(name: string, body?: object): Promise<Buffer>
}

export function openCalls({ url, key }: Pick<Cloud, 'url' | 'key'>, id: string, signal: AbortSignal): Calls {
  const agent = new Agent({ keepAlive: true })
  const { hostname, port } = new URL(url)
  return {
    async computer(name, body) {
      const sent = body ? JSON.stringify(body) : ''
      const path = `/browsers/${id}/computer/${name}`
      const headers = { authorization: `Bearer ${key}`, 'content-length': Buffer.byteLength(sent), ...(body && { 'content-type': 'application/json' }) }
      const call = request({ agent, hostname, port, path, method: 'POST', headers, signal, timeout: CALL_MS })
      call.on('timeout', () => call.destroy(new Error(`${name} did not answer within ${CALL_MS} ms`)))
      // Before an answer has begun it is awaited below; then its stream tells of failures.
      call.on('error', () => {})
      call.end(sent)
      const [response] = (await once(call, 'response')) as [IncomingMessage]
      const answer = await whole(response)
      if (response.statusCode !== 200) throw new Error(`${name} answered ${response.statusCode}: ${answer.toString()}`)
      return answer
    },
    [Symbol.dispose]: () => agent.destroy(),
  }
}
