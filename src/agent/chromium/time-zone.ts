// The time zone for pages and workers. Chromium watches /etc/localtime, a link to a file of the agent, and reads it again at each start.
import { existsSync, readlinkSync, renameSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { until } from '../../base/wait.ts'
import { fault } from '../../http/fault.ts'
import { temporaryName } from '../fs/stage.ts'
import { LOCAL_TIME, ZONES_DIR } from '../spec.ts'
import { openHidden } from './hidden.ts'
import type { Keeper } from './keeper.ts'
import { read } from './unseen.ts'

/** A running browser applies a change within milliseconds; on a busy machine, or just after its start, within seconds. */
const FOLLOW_MS = 20_000
/** Chromium misses a change before it watches the link, so the change is repeated. */
const AGAIN_MS = 500

/** Sets the time zone by its IANA name; '' is the initial one of the session. Resolves when pages have it. @throws 400 for an unknown zone */
export type SetTimeZone = (zone: string) => Promise<void>

export function makeSetTimeZone(browser: Pick<Keeper, 'run'>): SetTimeZone {
  const first = readlinkSync(LOCAL_TIME)

  function link(file: string): void {
    const draft = `${LOCAL_TIME}.${temporaryName()}`
    symlinkSync(file, draft)
    renameSync(draft, LOCAL_TIME)
  }

  return async (zone) => {
    const file = zone === '' ? first : join(ZONES_DIR, zone)
    if (!existsSync(file)) throw fault.field('time_zone', `this machine does not know the time zone ${JSON.stringify(zone)}`)
    const name = JSON.stringify(file.slice(ZONES_DIR.length + 1))
    // Zones have several names, and pages get one of them.
    const isSeen = `Intl.DateTimeFormat().resolvedOptions().timeZone === Intl.DateTimeFormat('en', { timeZone: ${name} }).resolvedOptions().timeZone`
    const { pipe } = await browser.run()
    await using opened = new AsyncDisposableStack()
    // Use a separate page: the session's pages may hang.
    const page = opened.use(await pipe.session(await openHidden(pipe, opened)))
    let linkedAt = -Infinity
    const follows = async () => {
      if (performance.now() - linkedAt > AGAIN_MS) {
        link(file)
        linkedAt = performance.now()
      }
      return (await read(page, isSeen)) === true
    }
    await until('the time zone', FOLLOW_MS, follows, { everyMs: 5 })
  }
}
