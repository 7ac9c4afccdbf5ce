// The proxy of the browser: its port, the policy that names it, and whether Chromium uses it.
import { networkInterfaces } from 'node:os'
import type { Duplex } from 'node:stream'
import type { Log } from '../../base/log.ts'
import { newId } from '../../base/ids.ts'
import { PROBE_HOST, PROXY_ERROR_HEADER } from '../../base/proxy-probe.ts'
import { sleep } from '../../base/wait.ts'
import { fault } from '../../http/fault.ts'
import type { CdpSession } from '../chromium/cdp.ts'
import { proxyFlags } from '../chromium/flags.ts'
import { openHidden } from '../chromium/hidden.ts'
import type { Keeper } from '../chromium/keeper.ts'
import type { ProxyFit } from '../session/contract.ts'
import { ProxyListener } from './listener.ts'

/** Timeout for a change. A browser applies it within 10 ms, from half a second after its start on (`FEATURES_ON` of chromium/flags.ts). */
const FOLLOW_MS = 20_000
/** Chromium misses a change of the file before it watches it, so the change is repeated. */
const AGAIN_MS = 100
/** If the service does not answer, the agent does after five seconds. */
const PROBE_MS = 10_000

/** The proxy of a session's browser. */
export interface BrowserProxy {
  /** Whether the browser should use it. */
  readonly isOn: boolean
  /** Turns it on, with links of the given key, or off. {@link confirmed} resolves when the browser has followed. */
  use(wanted: ProxyFit): Promise<void>
  /**
   * Resolves when the browser does what the last {@link use} has requested. `isNewRun`: a browser that has just started is always asked. @throws when it does
   * not
   */
  confirmed(when?: { isNewRun: boolean }): Promise<void>
  /** Accepts a link of the service. @throws a Fault */
  link(key: string, socket: Duplex, accept: () => void): void
}

/** Whether Chromium uses its proxy for a page. Its main process answers, so it does not matter if a page hangs. */
async function isProxied(page: CdpSession): Promise<boolean> {
  const url = `http://${PROBE_HOST}/${newId()}`
  const options = { disableCache: true, includeCredentials: false }
  const { resource } = await page.send('Network.loadNetworkResource', { frameId: page.targetId, url, options }, { limitMs: PROBE_MS })
  return Object.keys(resource.headers ?? {}).some((name) => name.toLowerCase() === PROXY_ERROR_HEADER.toLowerCase())
}

interface ProxySettings {
  browser: Pick<Keeper, 'run' | 'useProxy' | 'followProxy'>
  /** Writes the policy (chromium/policies.ts). */
  writePolicy: (port: number | undefined, direct: readonly string[], authorities: string) => void
  apiPorts: readonly number[]
  log: Log
}

export function makeBrowserProxy({ browser, writePolicy, apiPorts, log }: ProxySettings): BrowserProxy {
  const listener = new ProxyListener()
  let isOn = false
  let direct: readonly string[] = []
  let authorities = ''
  /** The last policy that was written, and the last one that Chromium has confirmed. */
  let written = ''
  let followed = ''

  /** @param again writes it even if it is unchanged */
  const write = (again: boolean): void => {
    const port = isOn ? listener.port : undefined
    const said = JSON.stringify([port, direct, authorities])
    if (said === written && !again) return
    writePolicy(port, direct, authorities)
    browser.useProxy(proxyFlags(port, direct))
    written = said
  }

  /**
   * Resolves when Chromium has applied the policy. A separate page asks: a client's page may be in a context with another proxy, may be closed, or its site may
   * forbid requests to others. @throws when it has not by `end`, or when the page has ended
   */
  async function follows(end: number): Promise<void> {
    const { pipe } = await browser.run()
    await using opened = new AsyncDisposableStack()
    const page = opened.use(await pipe.session(await openHidden(pipe, opened)))
    for (let writtenAt = performance.now(); (await isProxied(page)) !== isOn; await sleep(5)) {
      if (performance.now() > end) throw new Error(`the browser ${isOn ? 'does not use its proxy' : 'still uses its proxy'}`)
      if (performance.now() - writtenAt < AGAIN_MS) continue
      write(true)
      writtenAt = performance.now()
    }
  }

  return {
    get isOn() {
      return isOn
    },
    async use(wanted) {
      if (wanted.on && wanted.links === undefined) throw fault.field('proxy.links', 'must be given when the proxy is turned on')
      if (wanted.on) {
        // Use another port, which shows when Chromium has read the certificates. Until then its requests fail.
        if ((wanted.authorities ?? '') !== authorities) listener.close()
        await listener.open(wanted.links!)
        // The session's own URLs contain tokens, so they must not go through a proxy.
        authorities = wanted.authorities ?? ''
        direct = [...new Set([...ownAddresses().flatMap((host) => apiPorts.map((port) => `${host}:${port}`)), ...(wanted.direct ?? [])])]
      } else {
        // Its links have ended. New requests of Chromium to the port must fail at once and not wait for links; so must the check whether it still uses the
        // proxy.
        listener.refuse()
      }
      isOn = wanted.on
      write(false)
    },
    async confirmed({ isNewRun } = { isNewRun: false }) {
      // The case of nearly every session: it has never had a proxy.
      if (!isOn && listener.port === undefined) return
      // New links behind the same port do not concern Chromium. So a browser or a client that does not answer cannot delay the change.
      if (followed === written && !isNewRun) return
      await browser.followProxy()
      const end = performance.now() + FOLLOW_MS
      for (;;) {
        const asked = written
        try {
          await follows(end)
          followed = asked
          break
        } catch (err) {
          if (performance.now() > end) throw err
          log.debug({ err }, 'the browser was not asked whether it uses its proxy')
          await sleep(5)
        }
      }
      // Not earlier: until Chromium connects directly, its requests would fail.
      if (!isOn) listener.close()
    },
    link: (key, socket, accept) => listener.link(key, socket, accept),
  }
}

const ownAddresses = (): string[] =>
  Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .map(({ address, family }) => (family === 'IPv6' ? `[${address.split('%')[0]}]` : address))
