// Uses the agent as its first caller will: the service watches and fits it, a client opens a page. What V8 has compiled for that is kept with the code of the
// start (instances/local/agent-cache.ts); otherwise each agent would compile it again.
import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { within } from '../base/wait.ts'
import type { Route } from '../http/route.ts'
import { connectCdp } from './chromium/cdp-socket.ts'
import { session, SOCKETS } from './session/contract.ts'
import { DEFAULT_CATEGORIES, telemetryFeed } from './telemetry/contract.ts'

/** It takes half a second. */
const REHEARSAL_MS = 30_000
const PAGE = 'data:text/html,<title>a page</title><input>'

/** `fullscreen`: the page fills the screen, as in every lean session. May be called again. @throws when the agent refuses something */
export function rehearse(server: Server, fullscreen: boolean, signal: AbortSignal): Promise<void> {
  const ended = new AbortController()
  return within('the rehearsal', REHEARSAL_MS, play(server, fullscreen, ended.signal), signal).finally(() => ended.abort())
}

async function play(server: Server, fullscreen: boolean, signal: AbortSignal): Promise<void> {
  if (!server.listening) await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const ask = async ({ method, path }: Route, body?: object) => {
    const json = body && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method, signal, ...json })
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`)
    return answer
  }
  // These two answer as long as the agent lives.
  await ask(session.watchSession)
  await ask(telemetryFeed.feedTelemetry)
  const telemetry = { categories: DEFAULT_CATEGORIES }
  await ask(session.fitSession, { timeout_seconds: 60, telemetry, ...(fullscreen && { fullscreen }), start_url: PAGE })

  const client = await connectCdp(port, SOCKETS.cdp)
  try {
    await client.send('Target.setDiscoverTargets', { discover: true })
    const { targetId } = await client.send('Target.createTarget', { url: PAGE })
    await using page = await client.session(targetId)
    await page.send('Page.enable', {})
    await page.send('Runtime.evaluate', { expression: 'document.title' })
    await client.send('Target.closeTarget', { targetId })
  } finally {
    client.close()
  }
  await (await ask(session.sessionActivity)).arrayBuffer()
  await ask(telemetryFeed.endTelemetry)
}
