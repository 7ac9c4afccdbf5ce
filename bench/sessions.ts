// Starts a service to measure, and calls it with a minimal client: plain HTTP with keep-alive.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { startCloud, type Cloud } from '../test/support/cloud.ts'
import { openCalls, type Calls } from './calls.ts'
import { say } from './say.ts'

const CALL_MS = 120_000
/** The number of lines shown of a failed leak check. */
const SHOWN = 4

export interface Session extends AsyncDisposable {
  id: string
  cdpUrl: string
  liveUrl: string
  /** Deletes the session; disposing does so too. */
  delete(): Promise<void>
  computer: Calls['computer']
  call: Calls['call']
}

export interface Service extends AsyncDisposable {
  cloud: Cloud
  /** `options` are those of the create's body. */
  create(options?: object): Promise<Session>
  /** Resolves when `count` browsers are warm. */
  warm(count: number): Promise<void>
  /** The outermost process of the session. */
  pidOf(session: Session): number
}

/** Starts a service with `warm` spare browsers: exactly so many, or at least, if the settings in `env` say so. */
export async function startService(warm: number, signal: AbortSignal, env: Record<string, string> = {}): Promise<Service> {
  // Standby is off: otherwise a sleeping session would be compared to a Chromium that is awake. standby.ts measures standby.
  const cloud = await startCloud({ COB_WARM_BROWSERS: String(warm), COB_STANDBY_AFTER_SECONDS: '0', ...env })
  const call = async (method: string, path: string, body?: object): Promise<Response> => {
    const response = await cloud.fetch(path, {
      method,
      signal: AbortSignal.any([signal, AbortSignal.timeout(CALL_MS)]),
      ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    })
    if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${await response.text()}`)
    return response
  }
  return {
    cloud,
    async create(options = {}) {
      const {
        session_id: id,
        cdp_ws_url: cdpUrl,
        browser_live_view_url: liveUrl,
      } = (await (await call('POST', '/browsers', { timeout_seconds: 600, ...options })).json()) as {
        session_id: string
        cdp_ws_url: string
        browser_live_view_url: string
      }
      const calls = openCalls(cloud, id, signal)
      let ended = false
      const end = async () => {
        ended = true
        calls[Symbol.dispose]()
        await (await call('DELETE', `/browsers/${id}`)).arrayBuffer()
      }
      return {
        id,
        cdpUrl,
        liveUrl,
        delete: end,
        computer: calls.computer,
        call: calls.call,
        // After an interruption, the end of the service ends its sessions.
        async [Symbol.asyncDispose]() {
          if (!ended && !signal.aborted) await end()
        },
      }
    },
    warm: (count) => cloud.warm(count),
    pidOf({ id }) {
      const { processes } = JSON.parse(readFileSync(join(cloud.dataDir, 'instances', id, 'instance.json'), 'utf8')) as { processes: { pid: number }[] }
      return processes[0]!.pid
    },
    // The leak check also sees processes that others started meanwhile, so print its result instead of failing.
    async [Symbol.asyncDispose]() {
      try {
        await cloud[Symbol.asyncDispose]()
      } catch (error) {
        const lines = (error as Error).message.split('\n--- log ---')[0]!.split('\n')
        say(`after the service's end: ${lines.slice(0, SHOWN).join('; ')}${lines.length > SHOWN ? `; and ${lines.length - SHOWN} more` : ''}`)
      }
    },
  }
}
