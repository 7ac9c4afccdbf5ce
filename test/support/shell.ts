// The headless shell without a service, for tests of the display that lean sessions have.
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startChromium, type ChromiumRun } from '../../src/agent/chromium/process.ts'
import type { Log } from '../../src/base/log.ts'
import { asUser } from '../../src/base/unprivileged.ts'
import { instanceUser } from '../../src/base/user.ts'

export interface Shell extends Disposable {
  /** Starts it with its sandbox on, so not as root, and with a new profile. */
  start(): Promise<ChromiumRun>
}

/** Disposing removes its profiles; end its runs before. */
export function openShell({ width, height }: { width: number; height: number }, log: Log, signal: AbortSignal): Shell {
  const folder = mkdtempSync(join(tmpdir(), 'cob-shell-'))
  chmodSync(folder, 0o777)
  let runs = 0
  return {
    async start() {
      const { file, args } = asUser(instanceUser('shell'), { folder }, (seen) => [
        '/usr/bin/chromium-headless-shell',
        '--remote-debugging-pipe',
        '--remote-debugging-port=0',
        `--user-data-dir=${seen.folder}/${runs++}`,
        '--disable-gpu',
        `--window-size=${width},${height}`,
        'about:blank',
      ])
      return startChromium(file, args, { PATH: process.env.PATH, HOME: '/nonexistent' }, log, signal, () => {})
    },
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  }
}
