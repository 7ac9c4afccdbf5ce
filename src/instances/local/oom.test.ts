// The reports of the kernel's log on programs that it killed, and who receives them. The lines are those of Linux 6.18, and of older kernels where they differ.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { assertEvent } from '../../../test/support/telemetry-schemas.ts'
import { silentLog } from '../../base/log.ts'
import { sleep, until } from '../../base/wait.ts'
import { OomKills, Reports, type Kill } from './oom.ts'

interface Case {
  limited?: string
  group?: string
  name?: string
  trigger?: string
}

const GROUP = '/cob-abc/one'

const report = ({ limited = `oom_memcg=${GROUP}`, group = GROUP, name = 'chromium', trigger = 'Chrome_ChildIOT' }: Case = {}): string[] => [
  `${trigger} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=300`,
  `CPU: 1 UID: 1000 PID: 320 Comm: ${trigger} Not tainted 6.18.44 #1 PREEMPT(none)`,
  'Call Trace:',
  'memory: usage 48828kB, limit 48828kB, failcnt 30',
  'Tasks state (memory values in pages):',
  '[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj name',
  '[    300]  1000   300    55342     2000     1500      500         0   167936        0             0 node 1 2 3',
  `[    323]  1000   323    55342    13766    12128     1638         0   167936        0           300 ${name}`,
  '[    324]  1000   324    55342        0        0        0         0   167936        0           300 empty',
  `oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,${limited},task_memcg=${group},task=${name},pid=323,uid=1000`,
  `Memory cgroup out of memory: Killed process 323 (${name}) total-vm:221368kB, anon-rss:48512kB, file-rss:6552kB, shmem-rss:4kB, UID:1000 pgtables:164kB oom_score_adj:300`,
]

const killsOf = (lines: string[]): Kill[] => {
  const reports = new Reports()
  return lines.flatMap((line) => reports.push(line) ?? [])
}
const conforms = (data: object) =>
  assertEvent({ seq: 1, event: { type: 'system_oom_kill', category: 'system', ts: 1, source: { kind: 'local_process', event: 'oom_kill' }, data } })

test('a report says which program was killed, why, who had asked for memory, and what used most', () => {
  const [kill] = killsOf(['something else', ...report()])
  expect(kill).toEqual({
    group: GROUP,
    limited: GROUP,
    data: {
      pid: 323,
      process_name: 'chromium',
      rss_kb: 48512 + 6552 + 4,
      constraint: 'memcg',
      trigger_process_name: 'Chrome_ChildIOT',
      trigger_pid: 320,
      top_tasks: [
        { pid: 323, name: 'chromium', rss_kb: 13766 * 4 },
        { pid: 300, name: 'node 1 2 3', rss_kb: 2000 * 4 },
      ],
    },
  })
  conforms(kill!.data)
})

test('older kernels have fewer columns, and no user', () => {
  const older = [
    'python3 invoked oom-killer: gfp_mask=0x6000c0(GFP_KERNEL), nodemask=(null), order=0, oom_score_adj=0',
    'CPU: 0 PID: 7 Comm: python3 Not tainted 5.4.0',
    '[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name',
    '[      7]     0     7    10000     3000   167936        0             0 python3',
    `oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=${GROUP},task=python3,pid=7,uid=0`,
    'Out of memory: Killed process 7 (python3) total-vm:40000kB, anon-rss:12000kB, file-rss:0kB, shmem-rss:0kB',
  ]
  expect(killsOf(older)).toMatchObject([
    { limited: '/', group: GROUP, data: { constraint: 'none', rss_kb: 12_000, top_tasks: [{ rss_kb: 12_000 }], trigger_pid: 7 } },
  ])
})

test('the name of a process changes nothing else', () => {
  const name = 'a,pid=1) (b'
  expect(killsOf(report({ name, trigger: 'oom-kill:x' }))).toMatchObject([
    { group: GROUP, data: { pid: 323, process_name: name, trigger_process_name: 'oom-kill:x' } },
  ])
})

test('a kill without its report is nothing', () => {
  expect(killsOf(report().slice(-1))).toEqual([])
})

/** The events that the agents of the instances `one` and `two` receive. */
async function receivedOf(lines: string[]): Promise<{ id: string; body: { data: object } }[]> {
  const dir = mkdtempSync(join(tmpdir(), 'cob-oom-'))
  const received: { id: string; body: { data: object } }[] = []
  const stop = new AbortController()
  const agents = await Promise.all(
    ['one', 'two'].map(async (id) => {
      const server = createServer((request, response) => {
        void text(request).then((body) => {
          received.push({ id, body: JSON.parse(body) as { data: object } })
          response.writeHead(204).end()
        })
      })
      const socketPath = join(dir, id)
      server.listen(socketPath)
      await once(server, 'listening')
      return { id, server, agent: { socketPath } }
    }),
  )
  async function* said() {
    // After the instances are known.
    await sleep(0)
    yield* lines
  }
  const kills = new OomKills('abc', silentLog, stop.signal, said())
  for (const agent of agents) kills.follow(agent)
  await until('an event', 5_000, () => received.length > 0).catch(() => {})
  stop.abort()
  for (const { server } of agents) server.close().closeAllConnections()
  rmSync(dir, { recursive: true })
  return received
}

test('the agent of the instance is told, and no other', async () => {
  const received = await receivedOf([...report({ group: '/cob-other/two', limited: 'oom_memcg=/cob-other/two' }), ...report()])
  expect(received).toMatchObject([{ id: 'one', body: { type: 'system_oom_kill', data: { pid: 323, top_tasks: expect.any(Array) } } }])
  conforms(received[0]!.body.data)
})

test.each([
  ['the machine', 'global_oom'],
  ['all instances', 'oom_memcg=/cob-abc'],
])('when %s had no memory left, programs of others are not named', async (_whose, limited) => {
  const [received] = await receivedOf(report({ limited }))
  expect(received!.body.data).toEqual({ pid: 323, process_name: 'chromium', rss_kb: 55_068, constraint: 'memcg' })
})
