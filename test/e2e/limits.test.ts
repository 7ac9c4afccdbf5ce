// The limits of one session: disk, files, folders in memory, log, processes, CPU. They are small here, so no test fills the machine.
import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isRoot } from '../../src/base/user.ts'
import { until } from '../../src/base/wait.ts'
import { findLimits } from '../../src/instances/local/limits.ts'
import { diskQuota, findStorage, MAX_LOG_BYTES } from '../../src/instances/local/storage.ts'
import { startCloud, type Cloud } from '../support/cloud.ts'
import { agentOf } from '../support/inside.ts'

const DISK_MB = 256
const PIDS = 600
const CPU_PERCENT = 50
const ENDED_MS = 60_000
const MIB = 1024 * 1024

let cloud: Cloud
let images: boolean
beforeAll(async () => {
  cloud = await startCloud({ COB_INSTANCE_DISK_MB: String(DISK_MB), COB_INSTANCE_PIDS: String(PIDS), COB_WARM_BROWSERS: '0' })
  ;({ images } = await findStorage(cloud.dataDir))
})
afterAll(() => cloud?.[Symbol.asyncDispose]())

type Made = { id: string } & AsyncDisposable
async function session(): Promise<Made> {
  const { session_id: id } = await cloud.client.browsers.create({})
  return { id, [Symbol.asyncDispose]: () => cloud.client.browsers.deleteByID(id).catch(() => {}) }
}
async function sh(id: string, line: string): Promise<{ code: number; out: string }> {
  const { exit_code, stdout_b64, stderr_b64 } = await cloud.client.browsers.process.exec(id, { command: 'bash', args: ['-c', line], timeout_sec: 100 })
  return { code: exit_code!, out: [stdout_b64, stderr_b64].map((text) => Buffer.from(text ?? '', 'base64').toString()).join('') }
}
/** Files may be deleted while du counts. du then reports an error, but still prints the sum. */
const used = async (): Promise<number> =>
  Number((await promisify(execFile)('sh', ['-c', 'du -sx --block-size=1 "$0"; true', cloud.dataDir])).stdout.split('\t')[0])
const endOf = async (id: string): Promise<string | undefined> =>
  (await cloud.query<{ end_reason: string }>(`select end_reason from browsers where id = $1 and state = 'deleted'`, [id]))[0]?.end_reason

describe('the disk of a session', () => {
  test('has room for its quota and no more; other sessions are not affected', async () => {
    await using hog = await session()
    await using other = await session()
    const before = await used()
    const write = sh(hog.id, `dd if=/dev/zero of=/home/kernel/big bs=1M count=${2 * DISK_MB}`).catch(() => undefined)
    if (images) {
      expect((await write)!.out).toContain('No space left on device')
      // A session with a full disk continues and can free space.
      expect(await sh(hog.id, 'rm /home/kernel/big && echo new > /home/kernel/file && cat /home/kernel/file')).toEqual({ code: 0, out: 'new\n' })
    } else expect(await until('the session to be ended', ENDED_MS, () => endOf(hog.id), { everyMs: 100 })).toBe('disk_limit')
    expect(await used()).toBeLessThan(before + 1.2 * DISK_MB * MIB)
    expect((await sh(other.id, 'dd if=/dev/zero of=/home/kernel/file bs=1M count=20 status=none && echo written')).out).toBe('written\n')
  })

  test('has room for the quota of files and no more', async () => {
    await using hog = await session()
    const { inodes } = diskQuota(DISK_MB)
    const write = sh(hog.id, `perl -e 'for (1..${inodes + 1000}) { open F, ">", "/home/kernel/$_" or die "$_ $!" }'`).catch(() => undefined)
    if (images) expect((await write)!.out).toMatch(/No space left on device/)
    else expect(await until('the session to be ended', ENDED_MS, () => endOf(hog.id), { everyMs: 100 })).toBe('disk_limit')
  })

  test.skipIf(!isRoot())('is removed with its session: image, mount and loop device', async () => {
    if (!images) return
    const loops = async () => (await promisify(execFile)('losetup', ['--list', '--noheadings', '--output', 'BACK-FILE'])).stdout
    const hog = await session()
    const image = join(cloud.dataDir, 'instances', hog.id, 'disk.img')
    await sh(hog.id, 'dd if=/dev/zero of=/home/kernel/big bs=1M count=100 status=none')
    expect([existsSync(image), await loops()]).toEqual([true, expect.stringContaining(image)])
    await hog[Symbol.asyncDispose]()
    // The kernel releases the loop device with the last process. The service then moves the folder to the trash and removes it after it has answered the DELETE.
    const trash = join(cloud.dataDir, 'trash')
    const inTrash = () => existsSync(trash) && readdirSync(trash).some((name) => name.includes(hog.id))
    const left = async () => [(await loops()).includes(hog.id), existsSync(image), inTrash()]
    await until('the loop device, the image and the trash to be gone', ENDED_MS, async () => !(await left()).includes(true))
  })
})

test('every in-memory folder of a session is limited in bytes and files', async () => {
  await using made = await session()
  // All writable places outside the session's disk.
  const { out } = await sh(
    made.id,
    `awk '$3 == "tmpfs" && $4 !~ /^ro/ { print $2 }' /proc/mounts | sort -u | while read -r dir; do [ -w "$dir" ] && stat -f -c "$dir %b %S %c" "$dir"; done`,
  )
  const folders = Object.fromEntries(
    out
      .trim()
      .split('\n')
      .map((line) => line.split(' '))
      .map(([dir, blocks, size, inodes]): [string, { bytes: number; inodes: number }] => [
        dir!,
        { bytes: Number(blocks) * Number(size), inodes: Number(inodes) },
      ]),
  )
  expect(Object.keys(folders)).toEqual(expect.arrayContaining(['/dev/shm', '/etc/chromium/policies', '/run', '/tmp']))
  for (const { bytes, inodes } of Object.values(folders)) expect([bytes <= 2048 * MIB, inodes <= 200_000]).toEqual([true, true])
  expect((await sh(made.id, 'touch /dev/file')).out).toContain('Read-only file system')
  expect((await sh(made.id, 'dd if=/dev/zero of=/etc/chromium/policies/file bs=64k count=160')).out).toContain('No space left on device')
  expect((await sh(made.id, 'rm /etc/chromium/policies/file; for i in $(seq 200); do : > /etc/chromium/policies/$i; done')).out).toContain(
    'No space left on device',
  )
})

/** Where the kernel accounts swap in cgroup v1. (cgroup v2 has memory.swap.max.) */
const MEMSW = '/sys/fs/cgroup/memory'
test.skipIf(!isRoot() || !existsSync(join(MEMSW, 'memory.memsw.limit_in_bytes')))('a session gets no swap beyond its memory', async () => {
  await using made = await session()
  const [, group] = /^\d+:memory:(.*)$/m.exec(readFileSync(`/proc/${agentOf(cloud, made.id)}/cgroup`, 'utf8'))!
  const [memory, withSwap] = ['memory.limit_in_bytes', 'memory.memsw.limit_in_bytes'].map((file) => readFileSync(join(MEMSW, group!, file), 'utf8'))
  expect(withSwap).toBe(memory)
})

test("output that programs of a session write to the agent's own output does not fill the disk", async () => {
  await using made = await session()
  const line = `for fd in /proc/[0-9]*/fd/[12]; do [ -p "$fd" ] && timeout 5 head -c 10000000 /dev/zero 2>/dev/null > "$fd"; done; true`
  await sh(made.id, line)
  const dir = join(cloud.dataDir, 'instances', made.id)
  const logs = readdirSync(dir).filter((name) => name.startsWith('agent.log'))
  expect(logs.reduce((sum, name) => sum + statSync(join(dir, name)).size, 0)).toBeLessThanOrEqual(MAX_LOG_BYTES)
  expect((await sh(made.id, 'echo works')).out).toBe('works\n')
})

test('a fork bomb is limited to the processes of its own session', async () => {
  await using bomb = await session()
  await using other = await session()
  // The children stay until their parent has ended, however long the machine needs to start them all.
  const forks = `pipe R, W; for (1..${2 * PIDS}) { $pid = fork; if (!defined $pid) { $why = "$_ $!\\n"; sleep 4; die $why } if (!$pid) { close W; <R>; exit } }`
  const bang = sh(bomb.id, `ulimit -u; perl -e '${forks}'`)
  expect((await sh(other.id, 'for i in $(seq 50); do sleep 1 & done; wait; echo all')).out).toBe('all\n')
  const { out } = await bang
  expect(out).toMatch(new RegExp(`^${PIDS}\n`))
  expect(out).toMatch(/Resource temporarily unavailable/)
})

describe.skipIf(!findLimits('test').sharesCpu)('CPU time', () => {
  /** Counts in `threads` processes for `seconds` and returns the sum. All run on one CPU, so the number of CPUs does not matter. */
  const count = (threads: number, seconds: number) =>
    `taskset -cp 0 $$ >/dev/null; for i in $(seq ${threads}); do perl -e '$SIG{ALRM} = sub { print "$n\\n"; exit }; alarm ${seconds}; $n++ while 1' & done | awk '{ n += $1 } END { printf "%d", n }'`

  test('is shared by sessions, not by processes: eight busy loops do not slow another session down to a ninth', async () => {
    await using hog = await session()
    await using other = await session()
    const [many, one] = await Promise.all([sh(hog.id, count(8, 3)), sh(other.id, count(1, 3))])
    // If each process had its own CPU share, and not each session, the ratio would be one eighth.
    expect(Number(one.out) / Number(many.out)).toBeGreaterThan(0.3)
  })

  test('is limited if a setting says so', async () => {
    await using capped = await startCloud({ COB_INSTANCE_CPU_PERCENT: String(CPU_PERCENT), COB_WARM_BROWSERS: '0' })
    const { session_id: id } = await capped.client.browsers.create({})
    const line = `start=$(date +%s%N); for i in 1 2; do perl -e '$end = time + 3; 1 while time < $end; print((times)[0] + (times)[1], "\\n")' & done | awk '{ n += $1 } END { print n }'; echo $(( ($(date +%s%N) - start) / 1000000 ))`
    const { stdout_b64 } = await capped.client.browsers.process.exec(id, { command: 'bash', args: ['-c', line], timeout_sec: 60 })
    const [cpuSeconds, wallMs] = Buffer.from(stdout_b64!, 'base64').toString().trim().split('\n').map(Number)
    expect(cpuSeconds! / (wallMs! / 1000)).toBeLessThan((1.3 * CPU_PERCENT) / 100)
  })
})

test('limits that this machine cannot enforce are logged at the start', () => {
  const { findings } = findLimits('test')
  for (const finding of findings) expect(cloud.log()).toContain(JSON.stringify(finding).slice(1, -1))
  expect(cloud.log().includes('disk quotas of sessions and apps are counted')).toBe(!images)
})
