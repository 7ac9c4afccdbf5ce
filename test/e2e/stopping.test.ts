// Ctrl-C soon after the start: the service stops as it does later.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { leftovers, processesNow } from '../support/leaks.ts'

/** Kills a service that does not stop within this time. */
const STUCK_MS = 60_000

test.each([
  ['the database is being made', 'making the database'],
  ['Postgres has just started', 'Postgres started'],
  ['the first warm browser waits for compiled code', '"listening"'],
])('a service that is stopped while %s exits normally, does not wait for that, and logs no stack trace', async (_when, text) => {
  const before = processesNow()
  const dataDir = mkdtempSync(join(tmpdir(), 'cob-stop-'))
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', join(PACKAGE_DIR, 'src/cli/main.ts'), 'serve'], {
    env: { ...process.env, COB_DATA_DIR: dataDir, COB_PORT: '0', COB_GREETING: '0', COB_LOG_LEVEL: 'info' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  const hear = (chunk: Buffer) => {
    const heard = output.includes(text)
    output += chunk.toString()
    if (!heard && output.includes(text)) child.kill('SIGINT')
  }
  child.stdout.on('data', hear)
  child.stderr.on('data', hear)
  const stuck = setTimeout(() => child.kill('SIGKILL'), STUCK_MS)
  const [code] = (await once(child, 'close')) as [number | null]
  clearTimeout(stuck)
  expect(output).toContain(text)
  const traces = output.split('\n').filter((line) => /"stack"|^ {4}at /.test(line))
  expect([code, traces]).toEqual([0, []])
  // If the stop had waited for the compiled code, this folder would exist.
  expect(readdirSync(dataDir).filter((name) => name.startsWith('agent-cache'))).toEqual([])
  expect(await leftovers(dataDir, before)).toEqual([])
  rmSync(dataDir, { recursive: true, force: true })
})
