// Runs `cob secrets` as operators do: with a running service, without one, and with repeated kills.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { dataPaths, PACKAGE_DIR } from '../../src/base/paths.ts'
import { startCloud } from '../support/cloud.ts'
import { forTests } from '../support/for-tests.ts'

/** Longer than a start of Postgres and a rotation on a busy machine. */
const RUN_MS = 60_000

const cloud = forTests(() => startCloud({ COB_DRIVER: 'fake', COB_WARM_BROWSERS: '0' }))

interface Ended {
  code: number | null
  out: string
  err: string
}

async function cob(args: string[], env: Record<string, string> = {}, killAfterMs?: number): Promise<Ended> {
  const child = spawn(join(PACKAGE_DIR, 'bin/cob'), args, {
    env: { PATH: process.env.PATH, COB_DATA_DIR: cloud.dataDir, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: killAfterMs ?? RUN_MS,
    killSignal: 'SIGKILL',
  })
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')])
  return { code: child.exitCode, out, err }
}

const stored = async (): Promise<string[]> => (await cloud.client.credentials.list({ limit: 100 })).getPaginatedItems().map(({ name }) => name)
const assertReadable = async (): Promise<void> => {
  for (const name of await stored()) expect((await cloud.client.credentials.totpCode(name)).code).toMatch(/^\d{6}$/)
}
const create = (name: string) => cloud.client.credentials.create({ name, domain: 'site.test', values: { password: 'hush' }, totp_secret: 'JBSWY3DPEHPK3PXP' })

test('beside a running service: everything gets the new key, which the service uses from then on, and sessions keep their URLs', async () => {
  for (let at = 0; at < 20; at++) await create(`c${at}`)
  const session = await cloud.client.browsers.create({})
  const before = readFileSync(dataPaths(cloud.dataDir).secretKey, 'utf8')
  const { code, out, err } = await cob(['secrets', 'rotate'])
  expect([code, err]).toEqual([0, ''])
  const id = /made a new key, ([0-9a-f]{16})/.exec(out)![1]!
  expect(out).toContain('encrypted 20 values again')
  await assertReadable()
  await create('later')
  expect((await cob(['secrets', 'list'])).out).toMatch(
    new RegExp(`^${id}  encrypts; 21 values; .*sealing-keys, made .*\n[0-9a-f]{16}  decrypts, signs; 0 values; .*secret-key\n$`),
  )
  expect(readFileSync(dataPaths(cloud.dataDir).secretKey, 'utf8')).toBe(before)
  expect((await fetch(session.browser_live_view_url!)).status).toBe(200)
  await cloud.remove(session.session_id)
})

test('killed again and again, it is completed by the next one, and nothing is lost', async () => {
  let killed = 0
  for (const ms of [400, 600, 700, 800, 900, 1000, 1200, 1500]) {
    if ((await cob(['secrets', 'rotate'], {}, ms)).code === null) killed++
    await assertReadable()
  }
  expect(killed).toBeGreaterThan(0)
  const { code, err } = await cob(['secrets', 'rotate'])
  expect([code, err]).toEqual([0, ''])
  const [first, ...others] = (await cob(['secrets', 'list'])).out.trim().split('\n')
  expect(first).toMatch(/ {2}encrypts; 21 values; /)
  for (const line of others) expect(line).toContain('; 0 values; ')
  await assertReadable()
})

test('with a service that is stopped, it starts the database for itself and stops it again', async () => {
  await cloud.stop()
  const pid = join(dataPaths(cloud.dataDir).postgres, 'postmaster.pid')
  const { code, err } = await cob(['secrets', 'rotate'])
  expect([code, err]).toEqual([0, ''])
  expect(() => statSync(pid)).toThrow('ENOENT')
  expect((await cob(['secrets', 'forget'])).out).toMatch(/^(kept [0-9a-f]{16}: it was replaced less than 60 minutes ago.*\n)+$/)
  // This secret only signs now, so a new one loses no data.
  rmSync(dataPaths(cloud.dataDir).secretKey)
  await cloud.start()
  expect(await stored()).toHaveLength(21)
  await assertReadable()
})

test('keys of settings are not made, but used', async () => {
  const [secret, next] = ['ab'.repeat(32), 'cd'.repeat(32)]
  const refused = await cob(['secrets', 'rotate'], { COB_SECRET_KEY: secret })
  expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('put a new key (openssl rand -hex 32) into COB_SEALING_KEYS')])
  const bad = await cob(['secrets', 'rotate'], { COB_SEALING_KEYS: `${next},short` })
  expect([bad.code, bad.err]).toEqual([1, expect.stringMatching(/^cob: COB_SEALING_KEYS: must be keys of 32 bytes/)])
  expect(bad.err).not.toContain('short')
  const file = readFileSync(dataPaths(cloud.dataDir).sealingKeys, 'utf8')
  await cloud.stop()
  const { code, out, err } = await cob(['secrets', 'rotate'], { COB_SEALING_KEYS: next })
  expect([code, err, out]).toEqual([0, '', expect.stringMatching(/^using the first key of COB_SEALING_KEYS, .*\nencrypted 21 values again\n$/)])
  expect(readFileSync(dataPaths(cloud.dataDir).sealingKeys, 'utf8')).toBe(file)
  // Encrypt with the file's key again; otherwise the service, which has only the file, could not read the values.
  expect((await cob(['secrets', 'rotate'], { COB_SEALING_KEYS: /^[0-9a-f]{64}/m.exec(file)![0] + `,${next}` })).out).toContain('encrypted 21 values again')
  await cloud.start()
  await assertReadable()
})

test('a folder that is no data directory is refused, and not made one', async () => {
  const { code, err } = await cob(['secrets', 'list'], { COB_DATA_DIR: join(cloud.dataDir, 'nothing') })
  expect([code, err]).toEqual([1, expect.stringMatching(/^cob: .*nothing is not the data directory of a service \(COB_DATA_DIR\)/)])
  expect(() => statSync(join(cloud.dataDir, 'nothing'))).toThrow('ENOENT')
})
