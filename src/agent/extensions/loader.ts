// Loads unpacked extensions into the running Chromium, over CDP.
import { join } from 'node:path'
import type { Log } from '../../base/log.ts'
import { fault } from '../../http/fault.ts'
import { CdpRefusal } from '../chromium/cdp.ts'
import type { Browser } from '../chromium/keeper.ts'
import { atOnce, type Check } from '../session/fit/step.ts'

export interface ExtensionLoader {
  /** Loads extensions by the names of their folders, all or none. The result checks that all are active. @throws 400 when Chromium refuses one */
  load(names: readonly string[]): Promise<Check>
  /** Loads all of them into a Chromium that has been started again. One that it refuses now, because its folder was changed, is left out. */
  again(): Promise<Check>
}

/** Loads the extensions below `dir`. A page that is open already does not see them; the next one does. */
export function extensionLoader(browser: Pick<Browser, 'run'>, dir: string, log: Log): ExtensionLoader {
  /** Those that the session has, by id: the names of their folders. Two folders may hold one extension, by the `key` in their manifests. */
  const loaded = new Map<string, string>()

  const load = async (name: string): Promise<string> => {
    const { pipe } = await browser.run()
    return (await pipe.send('Extensions.loadUnpacked', { path: join(dir, name) })).id
  }

  const check =
    (ids: readonly string[]): Check =>
    async () => {
      const { pipe } = await browser.run()
      const { extensions } = await pipe.send('Extensions.getExtensions', {})
      const missing = ids.filter((id) => !extensions.some((found) => found.id === id && found.enabled))
      if (missing.length > 0) throw new Error(`Chromium does not run the extensions ${missing.join(', ')}`)
    }

  /** Takes out again what a refused call has loaded; what it replaced comes back. */
  async function takeOut(ids: readonly string[]): Promise<void> {
    const { pipe } = await browser.run()
    for (const id of ids) {
      await pipe.send('Extensions.uninstall', { id })
      const before = loaded.get(id)
      if (before !== undefined) await load(before)
    }
  }

  return {
    async load(names) {
      const fresh = new Map<string, string>()
      try {
        for (const name of names) {
          const id = await load(name).catch((error: unknown) => {
            if (!(error instanceof CdpRefusal)) throw error
            throw fault.field('extensions', `Chromium does not load "${name}": ${error.message}`)
          })
          const other = fresh.get(id) ?? loaded.get(id)
          fresh.set(id, name)
          if (other !== undefined && other !== name)
            throw fault.field('extensions', `"${name}" and "${other}" are the same extension, by the key in their manifests`)
        }
      } catch (error) {
        await takeOut([...fresh.keys()]).catch((err: unknown) => log.warn({ err }, 'extensions of a refused call could not be removed'))
        throw error
      }
      for (const [id, name] of fresh) loaded.set(id, name)
      return check([...fresh.keys()])
    },

    async again() {
      if (loaded.size === 0) return atOnce
      const back: string[] = []
      for (const [id, name] of loaded)
        try {
          back.push(await load(name))
        } catch (error) {
          // Whoever changes the folder must not keep the browser from coming back.
          if (!(error instanceof CdpRefusal)) throw error
          log.warn({ err: error, name, id }, 'an extension was not loaded again')
        }
      return check(back)
    },
  }
}
