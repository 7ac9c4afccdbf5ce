// The output of `cob serve` on its first key: the whole key on a terminal, and no part of it where output is kept, such as in the log of a container.
import { spawn as spawnOnTerminal } from '@lydell/node-pty'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { freePort } from '../../test/support/free-port.ts'
import { scratchDir } from '../../test/support/scratch.ts'
import { copyTemplate } from '../../test/support/template.ts'
import { PACKAGE_DIR } from '../base/paths.ts'
import { until } from '../base/wait.ts'

const START_MS = 60_000
/** The last line of the greeting. */
const GREETED = 'script/demo'

async function settings(): Promise<{ dataDir: string; env: Record<string, string> }> {
  const dataDir = scratchDir('cob-serve-')
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }))
  copyTemplate(dataDir)
  const { PATH = '', HOME = '' } = process.env
  return { dataDir, env: { PATH, HOME, COB_DATA_DIR: dataDir, COB_DRIVER: 'fake', COB_PORT: String(await freePort()), COB_WARM_BROWSERS: '0' } }
}

const COMMAND = ['src/cli/main.ts', 'serve']

test('a first start without a terminal names the file of the key, which only its owner reads, and prints none of it', async () => {
  const { dataDir, env } = await settings()
  const child = spawn(process.execPath, COMMAND, { cwd: PACKAGE_DIR, env, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text: string) => (output += text))
  const ended = once(child, 'exit')
  await until('the greeting', START_MS, () => output.includes(GREETED)).finally(() => child.kill('SIGINT'))
  await ended
  const file = join(dataDir, 'api-key')
  const key = readFileSync(file, 'utf8').trim()
  expect(key).toMatch(/^cob_[0-9a-f]{40}$/)
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(output).toContain(`API key         new, in ${file}`)
  expect(output).toContain(`KERNEL_API_KEY=$(cat ${file})`)
  // Nor a useful part of it.
  expect(output).not.toContain(key.slice(4, 16))
  expect(output).not.toContain(key.slice(-16))
})

test('a first start on a terminal shows the key', async () => {
  const { dataDir, env } = await settings()
  let output = ''
  const terminal = spawnOnTerminal(process.execPath, COMMAND, { cwd: PACKAGE_DIR, env, cols: 400 })
  const ended = new Promise((resolve) => terminal.onExit(resolve))
  terminal.onData((text) => (output += text))
  await until('the greeting', START_MS, () => output.includes(GREETED)).finally(() => terminal.kill('SIGINT'))
  await ended
  expect(output).toContain(readFileSync(join(dataDir, 'api-key'), 'utf8').trim())
})
