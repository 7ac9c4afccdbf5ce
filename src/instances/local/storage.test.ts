// The keeper of a sandbox: it writes the output, and exits with the sandbox, however early that ends.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { readProcessFile } from '../../base/processes.ts'
import { isRoot } from '../../base/user.ts'
import { until } from '../../base/wait.ts'
import { silentLog } from '../../base/log.ts'
import { diskQuota, emptyDisk, imageOf, makeDisk, storageLines } from './storage.ts'
import { Trash } from './trash.ts'

const GONE_MS = 10_000

let root: string
let content: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'cob-storage-'))
  content = join(root, 'content')
  mkdirSync(content)
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

const keepers = (): string[] => readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && readProcessFile(Number(pid), 'cmdline')?.includes(root))

/** Runs the first lines of a start, and then `last`. Returns the number of all lines. */
async function start(name: string, count: number, last: string): Promise<number> {
  const dir = join(root, name)
  mkdirSync(dir)
  await makeDisk(dir, diskQuota(16), isRoot())
  const lines = storageLines(dir, diskQuota(16), { folder: content, user: undefined }).split('\n')
  const namespace = isRoot() ? ['unshare', '--mount', '--propagation', 'private'] : []
  const [file, ...args] = [...namespace, '/bin/sh', '-c', [...lines.slice(0, count), last].join('\n')]
  spawnSync(file!, args, { stdio: ['ignore', 'ignore', 'ignore'], timeout: GONE_MS })
  return lines.length
}

test('the keeper writes what the sandbox says, and exits when it ends', async () => {
  await start('whole', Infinity, 'echo said; echo wrong >&2')
  const log = join(root, 'whole/agent.log')
  await until('the output', GONE_MS, () => existsSync(log) && readFileSync(log, 'utf8') === 'said\nwrong\n')
  await until('the keeper to exit', GONE_MS, () => keepers().length === 0)
})

test('the keeper leaves out what a sandbox says too fast, at a low priority', async () => {
  const dir = join(root, 'fast')
  await start('fast', Infinity, `seq 1 3000000; sleep 2; echo nice "$(sed 's/.*) //' /proc/$(cat ${dir}/keeper)/stat | cut -d ' ' -f 17)"`)
  await until('the keeper to exit', GONE_MS, () => keepers().length === 0)
  const said = ['agent.log.1', 'agent.log'].map((name) => (existsSync(join(dir, name)) ? readFileSync(join(dir, name), 'utf8') : '')).join('')
  expect(said).toMatch(/^1\n2\n3\n/)
  expect(said).toMatch(/\n\[\d+ bytes were said too fast and are left out\]\nnice 19\n$/)
})

test('no keeper stays behind when a start is killed after any of its lines', async () => {
  const lines = await start('none', 0, 'kill -9 $$')
  for (let count = 1; count <= lines; count++) await start(`after-${count}`, count, 'kill -9 $$')
  await until('all keepers to exit', GONE_MS, () => keepers().length === 0)
})

test('the image of a sandbox is emptied beside the thread that serves all callers', async () => {
  const image = imageOf(root)
  writeFileSync(image, Buffer.alloc(1024 * 1024, 1))
  await using trash = new Trash(join(root, 'trash'), silentLog)
  const emptied = emptyDisk(root, trash)
  // The creation has only begun: a large image takes the file system seconds.
  expect(statSync(image).size).toBe(1024 * 1024)
  await emptied
  expect(statSync(image).size).toBe(0)
})
