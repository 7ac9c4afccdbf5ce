// The effects of a full disk on callers, and when sessions are ended. The disk is this machine's; the reserve is set larger than the disk.
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { fastCloud } from '../../../../test/support/fast-cloud.ts'
import { giveBallast, releaseBallast, roomOn, takeBallast } from '../../../base/disk.ts'
import { silentLog } from '../../../base/log.ts'
import { sleep, until } from '../../../base/wait.ts'
import { makeDisk } from './disk.ts'

const FULL_MB = 16_777_216
const LOOK_MS = 10_000

describe('while the disk has less free space than the reserve', () => {
  const cloud = fastCloud({ COB_DISK_RESERVE_MB: String(FULL_MB) })

  test.each(['/browsers', '/invocations', '/deployments', '/browsers/x/replays', '/browsers/x/fs/upload', '/browsers/x/fs/upload_zip'])(
    'POST %s is refused with 503, the reason, and Retry-After',
    async (path) => {
      const response = await cloud.send('POST', path, {})
      const { code, message, inner_error } = (await response.json()) as { code: string; message: string; inner_error: { code: string } }
      expect([response.status, code, inner_error.code, response.headers.get('retry-after')]).toEqual([503, 'unavailable', 'disk_full', '30'])
      expect(message).toMatch(/the disk of the data directory is full: \d+ MiB.* are left, and COB_DISK_RESERVE_MB keeps 16777216 MiB/)
    },
  )

  test('writing a file into a session is refused too', async () => {
    expect((await cloud.fetch('/browsers/x/fs/write_file?path=/tmp/x', { method: 'PUT', body: 'x' })).status).toBe(503)
  })

  test('calls that need no space work as usual', async () => {
    expect([(await cloud.fetch('/browsers')).status, (await cloud.fetch('/health')).status]).toEqual([200, 200])
  })

  test('/status and /metrics report it', async () => {
    const { status, groups } = (await (await cloud.fetch('/status')).json()) as { status: string; groups: { components: object[] }[] }
    expect([status, groups[0]!.components]).toEqual(['partial_outage', expect.arrayContaining([{ name: 'disk', status: 'partial_outage' }])])
    const figures = await (await cloud.fetch('/metrics')).text()
    expect(figures).toMatch(/^cob_disk_full 1$/m)
    expect(figures).toMatch(/^cob_disk_free_bytes \d+$/m)
  })
})

test('the largest user of the disk is ended while less than half of the reserve is free, and only then', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'cob-disk-'))
  try {
    const freeMb = Math.floor(roomOn(dir, 0).freeBytes / 1024 / 1024)
    for (const [reserveMb, isEnded] of [
      [Math.floor(freeMb * 1.5), false],
      [freeMb * 3, true],
    ] as const) {
      let ended = 0
      await using disk = makeDisk({ dir, reserveMb, log: silentLog, relieve: async () => `x${++ended}` })
      disk.watch()
      if (isEnded) await until('something to be ended, and then more', LOOK_MS, () => ended > 1)
      else await new Promise((resolve) => setTimeout(resolve, 300))
      expect([ended > 0, disk.room.problem !== undefined]).toEqual([isEnded, true])
    }
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
})

test('the reserve of the database really takes disk space; one that runs gets some of it, and one that starts all', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'cob-disk-'))
  const pieces = () => readdirSync(join(dir, 'ballast')).map((name) => statSync(join(dir, 'ballast', name)))
  try {
    await takeBallast(dir, 160)
    expect([pieces().length, pieces().every(({ size, blocks }) => size === 1024 * 1024 && blocks * 512 >= size)]).toEqual([40, true])
    giveBallast(dir)
    expect(pieces()).toHaveLength(36)
    for (let more = 0; more < 3; more++) giveBallast(dir)
    expect(pieces()).toHaveLength(32)
    releaseBallast(dir)
    expect(existsSync(join(dir, 'ballast'))).toBe(false)
    // On a full disk, only the part for a start is created.
    await takeBallast(dir, FULL_MB)
    expect(pieces()).toHaveLength(32)
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
})

test('a running service does not touch what a start of its database needs, also while that finds no space', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'cob-disk-'))
  const pieces = () => (existsSync(join(dir, 'ballast')) ? readdirSync(join(dir, 'ballast')).length : 0)
  try {
    await takeBallast(dir, 160)
    await using disk = makeDisk({ dir, reserveMb: FULL_MB, log: silentLog, relieve: async () => undefined })
    disk.watch(() => true)
    await until('a part of it to be given', LOOK_MS, () => pieces() < 40)
    await until('all of that part', LOOK_MS, () => pieces() === 32)
    await sleep(1_500)
    expect(pieces()).toBe(32)
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
})
