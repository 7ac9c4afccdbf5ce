// The proxy of the browser: its port, the policy that names it, and whether Chromium follows that.
import { networkInterfaces } from 'node:os'
import type { Duplex } from 'node:stream'
import type { Log } from '../../base/log.ts'
import { newId } from '../../base/ids.ts'
import { PROBE_HOST, PROXY_ERROR_HEADER } from '../../base/proxy-probe.ts'
import { sleep } from '../../base/wait.ts'
import { fault } from '../../http/fault.ts'
import type { CdpSession } from '../chromium/cdp.ts'
import { openHidden } from '../chromium/hidden.ts'
import type { Browser } from '../chromium/keeper.ts'
import type { ProxyFit } from '../session/contract.ts'
import { ProxyListener } from './listener.ts'

/** A browser follows within 10 ms, from half a second after its start on (`FEATURES_ON` of chromium/flags.ts). */
const FOLLOW_MS = 20_000
/** A change of the file before Chromium watches it is lost, so it is made again. */
const AGAIN_MS = 100
/** The agent answers after five seconds when the service does not. */
const PROBE_MS = 10_000

/** The proxy of a session's browser. */
export interface BrowserProxy {
  /** Whether the browser is to use it. */
  readonly isOn: boolean
  /** Turns it on, with links of the given key, or off. {@link confirmed} resolves when the browser follows. */
  use(wanted: ProxyFit): Promise<void>
  /** Resolves when the browser does what {@link use} has said last. `isNewRun`: one that has just started is asked in any case. @throws when it does not */
  confirmed(when?: { isNewRun: boolean }): Promise<void>
  /** Takes a link of the service. @throws a Fault */
  link(key: string, socket: Duplex, accept: () => void): void
}

/** Whether Chromium asks its proxy for a page. By its main process: a page that hangs does not matter. */
async function isProxied(page: CdpSession): Promise<boolean> {
  const url = `http://${PROBE_HOST}/${newId()}`
  const options = { disableCache: true, includeCredentials: false }
  const { resource } = await page.send('Network.loadNetworkResource', { frameId: page.targetId, url, options }, { limitMs: PROBE_MS })
  return Object.keys(resource.headers ?? {}).some((name) => name.toLowerCase() === PROXY_ERROR_HEADER.toLowerCase())
}

interface ProxySettings {
  browser: Pick<Browser, 'run'>
  /** Tells Chromium (chromium/policies.ts). */
  writePolicy: (port: number | undefined, direct: readonly string[], authorities: string) => void
  apiPorts: readonly number[]
  log: Log
}

export function makeBrowserProxy({ browser, writePolicy, apiPorts, log }: ProxySettings): BrowserProxy {
  const listener = new ProxyListener()
  let isOn = false
  let direct: readonly string[] = []
  let authorities = ''
  /** What Chromium has been told last, and what it has been seen to do. */
  let written = ''
  let followed = ''

  /** @param again also when Chromium has been told already */
  const write = (again: boolean): void => {
    const port = isOn ? listener.port : undefined
    const said = JSON.stringify([port, direct, authorities])
    if (said === written && !again) return
    writePolicy(port, direct, authorities)
    written = said
  }

  /**
   * Resolves when Chromium does what it has been told. It is asked by a page of our own: one of a client may be in a context with another proxy, may be closed, or its site may
   * forbid requests to others. @throws when it does not by `end`, or when the page has ended
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
        // By another port, so that it shows when Chromium has read the certificates. Until then its requests fail.
        if ((wanted.authorities ?? '') !== authorities) listener.close()
        await listener.open(wanted.links!)
        // The session's own URLs, with their tokens, are not for a proxy.
        authorities = wanted.authorities ?? ''
        direct = [...new Set([...ownAddresses().flatMap((host) => apiPorts.map((port) => `${host}:${port}`)), ...(wanted.direct ?? [])])]
      } else {
        // Its links have ended. What Chromium still sends there must not wait for others; nor must the question whether it has turned away.
        listener.refuse()
      }
      isOn = wanted.on
      write(false)
    },
    async confirmed({ isNewRun } = { isNewRun: false }) {
      // Nearly every session: it has never had one.
      if (!isOn && listener.port === undefined) return
      // New links of the same port are no matter of Chromium's. One that does not answer, or a client of it, must not delay the change.
      if (followed === written && !isNewRun) return
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
      // Not before: until Chromium connects directly, its requests would fail.
      if (!isOn) listener.close()
    },
    link: (key, socket, accept) => listener.link(key, socket, accept),
  }
}

const ownAddresses = (): string[] =>
  Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .map(({ address, family }) => (family === 'IPv6' ? `[${address.split('%')[0]}]` : address))
