// Loads extensions into the running Chromium: unpacked ones over CDP, the others by a managed policy.
import { join } from 'node:path'
import type { Log } from '../../base/log.ts'
import { fault } from '../../http/fault.ts'
import { CdpRefusal } from '../chromium/cdp.ts'
import type { Keeper } from '../chromium/keeper.ts'
import { atOnce, type Check } from '../session/fit/step.ts'
import type { Forced } from './by-policy.ts'
import type { ExtensionFolder } from './folder.ts'
import type { Installer } from './installer.ts'

export interface ExtensionLoader {
  /** Loads extensions by the names of their folders, all or none. The result checks that all are active. @throws 400 when Chromium refuses one */
  load(names: readonly string[]): Promise<Check>
  /** Loads all of them into a restarted Chromium. An extension that it refuses now, because its folder was changed, is left out. */
  again(): Promise<Check>
}

interface LoaderSettings {
  browser: Pick<Keeper, 'run'>
  /** The folder of the extensions. */
  dir: string
  folder: Pick<ExtensionFolder, 'forced'>
  installer: Installer
  log: Log
}

/** Loads the extensions below `dir`. Pages that are already open do not get them; later ones do. */
export function extensionLoader({ browser, dir, folder, installer, log }: LoaderSettings): ExtensionLoader {
  /** The session's extensions: folder names by id. Two folders may have the same extension, by the `key` in their manifests. */
  const loaded = new Map<string, string>()
  const isForced = (name: string) => folder.forced(name) !== undefined

  const load = async (name: string): Promise<string> => {
    const { pipe } = await browser.run()
    return (await pipe.send('Extensions.loadUnpacked', { path: join(dir, name) })).id
  }

  /** Chromium installs them itself; this waits for it. Returns the ids of those that it has not installed. */
  const missing = (ids: readonly string[]) => (ids.length > 0 ? installer.missing(ids) : [])

  /** Checks unpacked ones. Those that a policy installs have been awaited. */
  const check =
    (ids: readonly string[]): Check =>
    async () => {
      const { pipe } = await browser.run()
      const { extensions } = await pipe.send('Extensions.getExtensions', {})
      const gone = ids.filter((id) => !extensions.some((found) => found.id === id && found.enabled))
      if (gone.length > 0) throw new Error(`Chromium does not run the extensions ${gone.join(', ')}`)
    }

  /** Whether a policy has installed it for this session. */
  const isInstalled = (id: string) => loaded.has(id) && isForced(loaded.get(id)!)

  /** Removes the extensions that a refused call has loaded, and restores those that they replaced. */
  async function takeOut(ids: readonly string[]): Promise<void> {
    installer.remove(ids.filter((id) => !isInstalled(id)))
    const { pipe } = await browser.run()
    for (const id of ids) {
      await pipe.send('Extensions.uninstall', { id }).catch((error: unknown) => {
        // It was not loaded, or a policy has installed it.
        if (!(error instanceof CdpRefusal)) throw error
      })
      const before = loaded.get(id)
      if (before !== undefined && !isForced(before)) await load(before)
    }
  }

  /** Loads an unpacked one. The others are installed when all of these are loaded. Returns its id. */
  async function begin(name: string): Promise<string> {
    const forced = folder.forced(name)
    if (forced) return forced.id
    return load(name).catch((error: unknown) => {
      if (!(error instanceof CdpRefusal)) throw error
      throw fault.field('extensions', `Chromium does not load "${name}": ${error.message}`)
    })
  }

  async function install(some: readonly Forced[], names: ReadonlyMap<string, string>): Promise<void> {
    if (some.length === 0) return
    installer.add(some)
    const [id] = await missing(some.map((one) => one.id))
    if (id !== undefined) throw fault.field('extensions', `Chromium does not install "${names.get(id)}" by policy, and gives no reason; its .crx may be wrong`)
  }

  return {
    async load(names) {
      const fresh = new Map<string, string>()
      try {
        for (const name of names) {
          const id = await begin(name)
          const other = fresh.get(id) ?? loaded.get(id)
          fresh.set(id, name)
          if (other !== undefined && other !== name)
            throw fault.field('extensions', `"${name}" and "${other}" are the same extension, by the key in their manifests`)
        }
        await install(
          names.flatMap((name) => folder.forced(name) ?? []),
          fresh,
        )
      } catch (error) {
        await takeOut([...fresh.keys()]).catch((err: unknown) => log.warn({ err }, 'extensions of a refused call could not be removed'))
        throw error
      }
      for (const [id, name] of fresh) loaded.set(id, name)
      return check([...fresh.keys()].filter((id) => !isInstalled(id)))
    },

    async again() {
      if (loaded.size === 0) return atOnce
      const back: string[] = []
      for (const [id, name] of loaded) {
        if (isForced(name)) continue
        try {
          back.push(await load(name))
        } catch (error) {
          // A program of the session that changes the folder must not prevent the restart of the browser.
          if (!(error instanceof CdpRefusal)) throw error
          log.warn({ err: error, name, id }, 'an extension was not loaded again')
        }
      }
      // Chromium has their policy since its start, or reads it for another profile.
      const gone = await missing([...loaded.keys()].filter(isInstalled))
      if (gone.length > 0) log.warn({ ids: gone }, 'extensions were not installed again')
      return check(back)
    },
  }
}
