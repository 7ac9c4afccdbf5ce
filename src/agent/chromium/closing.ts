// Closes a Chromium so that its profile contains what pages have stored. Chromium's own end does not wait until localStorage and cookies are written.
// docs/decisions/0074-profiles.md
import { setTimeout } from 'node:timers/promises'
import type { Log } from '../../base/log.ts'
import { knownCookies, writeMissing, type KnownCookies } from './cookies.ts'
import { STORED_AFTER_MS, USER_DATA_DIR } from './flags.ts'
import type { ChromiumRun } from './process.ts'

/** The user data directory of a Chromium that writes cookies for another one. It is on the same disk. */
const COOKIES_DIR = `${USER_DATA_DIR}-cookies`

/** Limit on a close that should leave a complete profile: a gigabyte on a busy machine. */
const FINISH_MS = 30_000

interface Closing {
  log: Log
  signal: AbortSignal
}

/** Closes Chromium after it has had `afterMs` to write what pages have stored. `known`: its cookies, if it told them. */
export async function closeStored(
  run: ChromiumRun,
  afterMs: number,
  { log, signal }: Closing,
): Promise<{ hasClosed: boolean; known: KnownCookies | undefined }> {
  await Promise.race([setTimeout(afterMs, undefined, { signal }).catch(() => {}), run.exited])
  const failed = (err: unknown) => {
    log.warn({ err }, 'Chromium did not tell its cookies')
    return undefined
  }
  const known = await knownCookies(run.pipe).catch(failed)
  return { hasClosed: await run.close(FINISH_MS), known }
}

/**
 * Closes Chromium. Resolves with whether the profile in `folder` contains everything that pages have stored. `startAside` starts another Chromium, which writes
 * cookies that are missing there.
 */
export async function closeWhole(
  run: ChromiumRun,
  folder: string,
  closing: Closing,
  startAside: (userDataDir: string) => Promise<ChromiumRun>,
): Promise<boolean> {
  const { hasClosed, known } = await closeStored(run, STORED_AFTER_MS, closing)
  if (!hasClosed || known === undefined) return hasClosed
  const { log } = closing
  const left = await writeMissing(folder, known, {
    scratch: COOKIES_DIR,
    async runAside(userDataDir, work) {
      const aside = await startAside(userDataDir)
      try {
        await work(aside.pipe)
      } finally {
        await aside.close(FINISH_MS)
      }
    },
    log,
  }).catch((err: unknown) => {
    log.warn({ err }, 'cookies could not be written')
    return Infinity
  })
  return left === 0
}
