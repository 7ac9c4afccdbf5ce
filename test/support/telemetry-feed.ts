// A fake agent's telemetry feed: the test chooses the events, with any numbers and gaps.
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { telemetryFeed, type Envelope } from '../../src/agent/telemetry/contract.ts'
import type { Endpoint } from '../../src/http/endpoint.ts'

const BEAT_MS = 50

export interface PretendFeed extends AsyncDisposable {
  endpoint: Endpoint
  /** The events that the feed keeps. A test may remove some. */
  kept: Envelope[]
  /** How many times a reader has connected. */
  asked(): number
  /** Adds events now. */
  push(...events: Envelope[]): void
  /** Sends this text to all readers. */
  send(text: string): void
  /** Closes all connections. */
  cut(): void
}

export const line = (seq: number, more: Partial<Envelope['event']> = {}): Envelope => ({
  seq,
  event: { type: 'console_log', category: 'console', ts: Date.now() * 1000 + seq, source: { kind: 'cdp' }, data: { text: `line ${seq}` }, ...more },
})

export async function pretendFeed(dir: string): Promise<PretendFeed> {
  const readers = new Set<ServerResponse>()
  let asked = 0
  let last = 0
  const beat = () => `${JSON.stringify({ last })}\n`
  let isEnded = false
  const server = createServer((request, response) => {
    if (request.url === telemetryFeed.endTelemetry.path) {
      isEnded = true
      for (const reader of readers) reader.end()
      return void response.writeHead(204).end()
    }
    asked++
    const after = Number(new URL(request.url!, 'http://agent').searchParams.get('after'))
    response.writeHead(200, { 'content-type': 'application/x-ndjson' })
    response.write(beat())
    for (const one of feed.kept) if (one.seq > after) response.write(`${JSON.stringify(one)}\n`)
    if (isEnded) return void response.end()
    readers.add(response)
    response.on('close', () => readers.delete(response))
  })
  const socketPath = join(dir, 'agent.sock')
  server.listen(socketPath)
  await once(server, 'listening')
  const timer = setInterval(() => feed.send(beat()), BEAT_MS)
  const feed: PretendFeed = {
    endpoint: { socketPath },
    kept: [],
    asked: () => asked,
    push(...events) {
      for (const one of events) {
        last = one.seq
        feed.kept.push(one)
        feed.send(`${JSON.stringify(one)}\n`)
      }
    },
    send(text) {
      for (const reader of readers) reader.write(text)
    },
    cut() {
      for (const reader of readers) reader.destroy()
    },
    async [Symbol.asyncDispose]() {
      clearInterval(timer)
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return feed
}
