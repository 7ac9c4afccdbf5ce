// The time zone that pages and workers see. Chromium watches /etc/localtime, which is a link to one of the agent's, and reads it again at each start.
import { existsSync, readlinkSync, renameSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { until } from '../../base/wait.ts'
import { fault } from '../../http/fault.ts'
import { temporaryName } from '../fs/stage.ts'
import { LOCAL_TIME, ZONES_DIR } from '../spec.ts'
import { openHidden } from './hidden.ts'
import type { Browser } from './keeper.ts'
import { read } from './unseen.ts'

/** A browser that runs follows within milliseconds; on a busy machine, or when it has just started, in seconds. */
const FOLLOW_MS = 20_000
/** A change before Chromium watches the link is lost, so it is made again. */
const AGAIN_MS = 500

/** Sets the time zone by its IANA name; '' is the one that the session has begun with. Resolves when pages see it. @throws 400 when there is no such zone */
export type SetTimeZone = (zone: string) => Promise<void>

export function makeSetTimeZone(browser: Pick<Browser, 'run'>): SetTimeZone {
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
    // Zones have several names, and pages see one of them.
    const isSeen = `Intl.DateTimeFormat().resolvedOptions().timeZone === Intl.DateTimeFormat('en', { timeZone: ${name} }).resolvedOptions().timeZone`
    const { pipe } = await browser.run()
    await using opened = new AsyncDisposableStack()
    // A page of its own: the session's pages may hang.
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
