// Makes the running Chromium install extensions by a managed policy. Chromium reports neither success nor failure, so it is asked whether it runs them.
import { sleep } from '../../base/wait.ts'
import type { CdpSession } from '../chromium/cdp.ts'
import { openHidden } from '../chromium/hidden.ts'
import type { Keeper } from '../chromium/keeper.ts'
import type { Forced } from './by-policy.ts'

/** A browser that has run for some seconds installs an extension within 0.2 s. One that had just started applied a change of the policies after 4 s. */
const INSTALL_MS = 15_000
/** Chromium misses a change of the policies before it watches their files, so the change is repeated. */
const AGAIN_MS = 500
/** Chromium's main process answers within some milliseconds. */
const ASK_MS = 10_000
const EVERY_MS = 10

export interface Installer {
  /** Makes Chromium install these in addition to earlier ones. {@link missing} tells when it has. */
  add(some: readonly Forced[]): void
  /** Makes Chromium remove these by id; it does so within milliseconds. */
  remove(ids: readonly string[]): void
  /** Waits until Chromium runs these by id. Returns the ids of those that it does not run after a while. */
  missing(ids: readonly string[]): Promise<string[]>
}

/** `writePolicy` lists all extensions that Chromium should install (chromium/policies.ts). */
export function extensionInstaller(browser: Pick<Keeper, 'run'>, writePolicy: (all: readonly Forced[]) => void, installMs = INSTALL_MS): Installer {
  const all = new Map<string, Forced>()
  const write = () => writePolicy([...all.values()])
  return {
    add(some) {
      for (const one of some) all.set(one.id, one)
      write()
    },
    remove(ids) {
      if (ids.filter((id) => all.delete(id)).length > 0) write()
    },
    async missing(ids) {
      const { pipe } = await browser.run()
      await using opened = new AsyncDisposableStack()
      const page = await openHidden(pipe, opened)
      const session = opened.use(await pipe.session(page))
      const end = performance.now() + installMs
      for (let left = ids, writtenAt = performance.now(); ;) {
        const answers = await Promise.all(left.map((id) => isRunning(session, page, id)))
        left = left.filter((_, at) => !answers[at])
        if (left.length === 0 || performance.now() > end) return [...left]
        if (performance.now() - writtenAt > AGAIN_MS) {
          write()
          writtenAt = performance.now()
        }
        await sleep(EVERY_MS)
      }
    },
  }
}

/** For an extension that it runs, Chromium refuses a page its files. For one that it does not run, it does not find them. */
async function isRunning(session: CdpSession, page: string, id: string): Promise<boolean> {
  const options = { disableCache: true, includeCredentials: false }
  const { resource } = await session.send(
    'Network.loadNetworkResource',
    { frameId: page, url: `chrome-extension://${id}/manifest.json`, options },
    { limitMs: ASK_MS },
  )
  return resource.success || resource.netErrorName === 'net::ERR_BLOCKED_BY_CLIENT'
}
