// Fills a small file system that the test mounts: which calls the service refuses, which session it ends, and that it starts on the full disk.
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { roomOn } from '../../src/base/disk.ts'
import { isRoot } from '../../src/base/user.ts'
import { sleep, until } from '../../src/base/wait.ts'
import { startCloud, type OwnCloud } from '../support/cloud.ts'
import { runInside } from '../support/inside.ts'

const DISK_MB = 800
const RESERVE_MB = 200
const ENDED_MS = 60_000

// Only root can mount a file system; src/control/service/system/disk.test.ts tests the refusals without one.
describe.skipIf(!isRoot())('a full disk', () => {
  const outer = process.env.TMPDIR
  let root: string
  let cloud: OwnCloud
  beforeAll(async () => {
    root = mkdtempSync(join(tmpdir(), 'cob-small-'))
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${DISK_MB}m`, 'cob', root])
    process.env.TMPDIR = root
    cloud = await startCloud({ COB_DISK_RESERVE_MB: String(RESERVE_MB), COB_INSTANCE_DISK_MB: '4096', COB_WARM_BROWSERS: '0' })
  })
  afterAll(async () => {
    try {
      await cloud?.[Symbol.asyncDispose]()
    } finally {
      if (outer === undefined) delete process.env.TMPDIR
      else process.env.TMPDIR = outer
      execFileSync('umount', ['--lazy', root])
      rmSync(root, { recursive: true, force: true })
    }
  })

  const filler = () => join(root, 'filler')
  const fill = () => {
    try {
      execFileSync('dd', ['if=/dev/zero', `of=${filler()}`, 'bs=4k', 'oflag=append', 'conv=notrunc'], { stdio: 'ignore' })
    } catch {} // loop until no space is left
  }
  const create = async () => (await cloud.client.browsers.create({})).session_id
  const sh = async (id: string, line: string): Promise<string> => {
    const { stdout_b64 } = await cloud.client.browsers.process.exec(id, { command: 'bash', args: ['-c', line], timeout_sec: 60 })
    return Buffer.from(stdout_b64 ?? '', 'base64').toString()
  }
  const endOf = async (id: string): Promise<string | undefined> =>
    (await cloud.query<{ end_reason: string }>(`select end_reason from browsers where id = $1 and state = 'deleted'`, [id]))[0]?.end_reason
  /** The database's reserve is complete, and no file of an ended session remains that would later free space. */
  const isSettled = () => {
    const trash = join(cloud.dataDir, 'trash')
    const ballast = join(cloud.dataDir, 'ballast')
    return existsSync(ballast) && readdirSync(ballast).length === RESERVE_MB / 4 && (!existsSync(trash) || readdirSync(trash).length === 0)
  }
  const hasRoom = () => until('room on the disk', ENDED_MS, () => roomOn(root, RESERVE_MB).problem === undefined, { everyMs: 50 })
  const kill = async () => {
    await cloud.kill()
    const postgres = Number(readFileSync(join(cloud.dataDir, 'postgres/postmaster.pid'), 'utf8').split('\n')[0])
    process.kill(postgres, 'SIGKILL')
    await until('Postgres to be gone', ENDED_MS, () => !existsSync(`/proc/${postgres}`))
  }

  test('ends the session that fills it; the database and other sessions continue', async () => {
    const [hog, other] = [await create(), await create()]
    void sh(hog, `dd if=/dev/zero of=/home/kernel/big bs=1M count=${DISK_MB} conv=fsync`).catch(() => {})
    expect(await until('the hog to be ended', ENDED_MS, () => endOf(hog), { everyMs: 50 })).toBe('disk_limit')
    await hasRoom()
    expect(await sh(other, 'echo works > /home/kernel/file && cat /home/kernel/file')).toBe('works\n')
    expect(cloud.log()).toContain('the session or app sandbox that used most of it has been ended')
    expect(cloud.log()).not.toContain('Postgres ended by itself')
    await cloud.remove(other)
  })

  test('does not stop the service from starting if something else fills it; creates are refused until there is room', async () => {
    await until('the reserve for the database', ENDED_MS, isSettled, { everyMs: 50 })
    const kept = await create()
    await kill()
    fill()
    expect(roomOn(root, RESERVE_MB).freeBytes).toBeLessThan(1024 * 1024)
    await cloud.start()
    expect((await cloud.client.browsers.retrieve(kept)).session_id).toBe(kept)
    const refused = await cloud.fetch('/browsers', { method: 'POST' })
    expect([refused.status, ((await refused.json()) as { message: string }).message]).toEqual([503, expect.stringMatching(/disk .* is full/)])
    rmSync(filler())
    await cloud.remove(kept)
    await cloud.remove(await create())
  })

  test('does not stop the service from starting if it was full before the service and its database were killed', async () => {
    await until('the reserve for the database', ENDED_MS, isSettled, { everyMs: 50 })
    const kept = await create()
    for (let time = 0; time < 3; time++) {
      // Fill the disk repeatedly, because the running service frees space for its database.
      for (let look = 0; look < 20; look++) {
        fill()
        await sleep(50)
      }
      expect(roomOn(root, RESERVE_MB).freeBytes).toBeLessThan(1024 * 1024)
      await kill()
      fill()
      await cloud.start()
    }
    await cloud.remove(kept)
    rmSync(filler())
    await cloud.remove(await create())
  })

  test('does not stop the service from starting if it has no room for files', async () => {
    await until('the reserve for the database', ENDED_MS, isSettled, { everyMs: 50 })
    const kept = await create()
    const files = join(root, 'files')
    mkdirSync(files)
    execFileSync('mount', ['-o', 'remount,nr_inodes=20000', root])
    for (let time = 0; time < 2; time++) {
      try {
        for (;;) writeFileSync(join(files, randomUUID()), '')
      } catch {} // loop until there is no inode
      await kill()
      await cloud.start()
    }
    rmSync(files, { recursive: true })
    execFileSync('mount', ['-o', 'remount,nr_inodes=1000000', root])
    await cloud.remove(kept)
    await cloud.remove(await create())
  })

  test('does not stop the service from starting if a session filled it while the service was down', async () => {
    await until('the reserve for the database', ENDED_MS, isSettled, { everyMs: 50 })
    const hog = await create()
    const line = `until [ -e /tmp/begin ]; do sleep 0.1; done; dd if=/dev/zero of=/home/kernel/big bs=1M count=${DISK_MB}; sync`
    await cloud.client.browsers.process.spawn(hog, { command: 'bash', args: ['-c', line] })
    await kill()
    expect(await runInside(cloud, hog, 'touch /tmp/begin')).toMatchObject({ code: 0 })
    await until('the disk to be full', ENDED_MS, () => roomOn(root, RESERVE_MB).freeBytes < 40 * 1024 * 1024, { everyMs: 50 })
    await cloud.start()
    await hasRoom()
    expect(['lost', 'disk_limit']).toContain(await until('the hog to be ended', ENDED_MS, () => endOf(hog), { everyMs: 50 }))
    await cloud.client.browsers.deleteByID(await create())
  })
})
