// The profile of the session's browser: loading one into the running Chromium, and saving it. docs/decisions/0074-profiles.md
import { mkdirSync } from 'node:fs'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fault } from '../../http/fault.ts'
import { LAST_SESSION, USER_DATA_DIR } from '../chromium/flags.ts'
import type { Keeper } from '../chromium/keeper.ts'
import { fileFault } from '../fs/faults.ts'
import { BYTES_HEADER, LEFT_OUT_HEADER, WHOLE_HEADER } from './contract.ts'
import type { Profile } from './handlers.ts'

/** The folder of a loaded profile, below the user data directory. It is Chromium's own name for its second profile. */
const LOADED = 'Profile 1'
const PREFERENCES = 'Preferences'

/** Most sessions have no profile, and start without this code. */
const loadArchives = () => import('./archive.ts')

/** Makes the profile of `browser`. `passwords`: values typed by a login, which no list of tabs may contain. */
export function openProfile(
  browser: Pick<Keeper, 'run' | 'profile' | 'changeProfile' | 'finish' | 'savesTabs'>,
  passwords: ReadonlySet<string> = new Set(),
  userDataDir = USER_DATA_DIR,
): Profile {
  let isTaken = false
  return {
    async load(archive, options, signal) {
      if (isTaken) throw fault.conflict('this session has a profile already, or is just getting one')
      isTaken = true
      const folder = join(userDataDir, LOADED)
      try {
        const { intoFolder, isNewer, readArchive } = await loadArchives()
        const { version } = await browser.run()
        const running = version.slice(version.indexOf('/') + 1)
        await rm(folder, { recursive: true, force: true })
        mkdirSync(folder, { mode: 0o700 })
        using files = intoFolder(folder)
        const { manifest } = await readArchive(archive, files, options, signal)
        if (manifest && isNewer(manifest.chromium, running))
          throw fault.conflict(
            `the profile was saved by Chromium ${manifest.chromium}, and this session has Chromium ${running}: an older one would empty it; update Chromium here`,
          )
        await prepare(join(folder, PREFERENCES))
        signal.throwIfAborted()
        // After this, the change is carried out even if the caller disconnects.
        await browser.changeProfile(LOADED, options.keepTabs)
        return { chromium: running }
      } catch (error) {
        // The profile may be in use even though a later step has failed.
        isTaken = browser.profile === LOADED
        if (!isTaken) await rm(folder, { recursive: true, force: true })
        throw error
      }
    },
    async save() {
      const { packProfile, tabsHave } = await loadArchives()
      const { whole, version } = await browser.finish()
      const folder = join(userDataDir, browser.profile)
      const manifest = { version: 1, chromium: version.slice(version.indexOf('/') + 1) } as const
      const { bytes, leftOut, archive } = await packProfile(folder, manifest, { withTabs: browser.savesTabs && !(await tabsHave(folder, passwords)) })
      return { body: archive, headers: { [WHOLE_HEADER]: String(whole), [BYTES_HEADER]: String(bytes), [LEFT_OUT_HEADER]: String(leftOut) } }
    },
  }
}

/** Makes Chromium restore session cookies, and tabs if there are any. */
async function prepare(path: string): Promise<void> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return '{}'
    throw fileFault(error, 'body', PREFERENCES)
  })
  let preferences: unknown
  try {
    preferences = JSON.parse(text)
  } catch {}
  if (!isObject(preferences)) throw fault.field('body', `the profile has a file "${PREFERENCES}" that is not a JSON object`)
  const { session } = preferences
  const prepared = {
    ...preferences,
    session: { ...(isObject(session) && session), restore_on_startup: LAST_SESSION },
  }
  await writeFile(path, JSON.stringify(prepared), { mode: 0o600 })
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value)
