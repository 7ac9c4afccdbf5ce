// A temporary folder for one measurement.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export function temporary(): { path: string } & Disposable {
  const path = mkdtempSync(join(tmpdir(), 'cob-bench-'))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}
