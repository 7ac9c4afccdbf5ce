// The command itself, run as users run it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync, readFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { PACKAGE_DIR } from '../base/paths.ts'
import { VERSION } from '../base/version.ts'

/** Longer than any of these commands takes on a busy machine. It also ends a service that starts by mistake. */
const RUN_MS = 20_000

async function cob(args: string[], env: Record<string, string> = {}): Promise<{ code: number | null; out: string; err: string }> {
  const child = spawn(join(PACKAGE_DIR, 'bin/cob'), args, { env: { PATH: process.env.PATH, ...env }, stdio: ['ignore', 'pipe', 'pipe'], timeout: RUN_MS })
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')])
  return { code: child.exitCode, out, err }
}

/** A data directory that does not exist yet. */
function newDataDir(): string {
  const dir = mkdtempSync(join(tmpdir(), 'cob-cli-'))
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }))
  return join(dir, 'data')
}

test('cob without a command prints its help and starts nothing', async () => {
  const data = newDataDir()
  const { code, out, err } = await cob([], { COB_DATA_DIR: data, COB_DRIVER: 'fake', COB_PORT: '0' })
  expect([code, err]).toEqual([0, ''])
  expect(out).toMatch(/^Usage: cob .*serve .*doctor /s)
  expect(existsSync(data)).toBe(false)
})

test('cob --version prints only the version', async () => {
  expect(await cob(['--version'])).toEqual({ code: 0, out: `${VERSION}\n`, err: '' })
})

test('an unknown command is an error that names it', async () => {
  const { code, err } = await cob(['sevre'])
  expect([code, err]).toEqual([1, expect.stringContaining("unknown command 'sevre'")])
})

test('a port in use is reported before a database is created, with who uses it and the setting that changes the port', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  const data = newDataDir()
  expect(await cob(['serve'], { COB_DATA_DIR: data, COB_DRIVER: 'fake', COB_PORT: String(port) })).toEqual({
    code: 1,
    out: '',
    err: `cob: COB_PORT: port ${port} on 127.0.0.1 is in use by process ${process.pid} (${readFileSync('/proc/self/comm', 'utf8').trim()}): stop that program, or set COB_PORT to another port\n`,
  })
  expect(existsSync(data)).toBe(false)
})

test('an address that does not belong to this machine is an error that names its setting', async () => {
  const { code, err } = await cob(['serve'], { COB_DATA_DIR: newDataDir(), COB_DRIVER: 'fake', COB_HOST: '192.0.2.1' })
  expect([code, err]).toEqual([1, expect.stringMatching(/^cob: COB_HOST: 192\.0\.2\.1 is not an address of this machine.*\n$/)])
})

test.each([
  ['postgres://ann:hush%40hush@127.0.0.1:1/shop', 'Postgres at 127.0.0.1:1 does not accept connections'],
  ['postgres://ann:hush%40hush@[::1]:1/shop', 'Postgres at [::1]:1 does not accept connections'],
  ['postgres://ann:hush%40hush@/shop?host=/nowhere', 'Postgres at /nowhere/.s.PGSQL.5432 does not accept connections'],
  ['postgres://ann:hush@hush@127.0.0.1:99999/shop', 'is not the address of a Postgres'],
])('an unusable DATABASE_URL is reported in one line, without its password: %s', async (url, problem) => {
  const { code, out, err } = await cob(['serve'], { COB_DATA_DIR: newDataDir(), COB_DRIVER: 'fake', COB_PORT: '0', DATABASE_URL: url })
  expect([code, out]).toEqual([1, ''])
  expect(err.split('\n')).toEqual([expect.stringContaining(`cob: DATABASE_URL: ${problem}`), ''])
  expect(err).not.toContain('hush')
})
