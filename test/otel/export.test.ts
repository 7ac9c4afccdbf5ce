// Exports telemetry to a real OpenTelemetry Collector. script/test-otel builds it and runs this.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { EVENT_TYPES, TYPES } from '../../src/agent/telemetry/contract.ts'
import { sleep, until } from '../../src/base/wait.ts'
import { freePort } from '../support/free-port.ts'
import { startFastCloud, type FastCloud } from '../support/fast-cloud.ts'
import { allOf, emit, EVERYTHING, say } from '../support/kept-telemetry.ts'

const SOON_MS = 60_000
const AWAY_MS = 60_000

interface Attribute {
  key: string
  value: { stringValue?: string; intValue?: string }
}
interface Item {
  name?: string
  eventName?: string
  timeUnixNano?: string
  attributes: Attribute[]
}
interface Line {
  resourceLogs?: { resource: { attributes: Attribute[] }; scopeLogs: { logRecords: Item[] }[] }[]
  resourceSpans?: { resource: { attributes: Attribute[] }; scopeSpans: { spans: Item[] }[] }[]
}

let dir: string
let port: number
let collector: ChildProcess | undefined
let cloud: FastCloud

async function startCollector(): Promise<void> {
  collector = spawn(process.env.COB_TEST_OTEL!, ['--config', join(dir, 'config.yaml')], { stdio: 'ignore' })
  await until('the collector', SOON_MS, () =>
    post({})
      .then(({ ok }) => ok)
      .catch(() => false),
  )
}
async function killCollector(): Promise<void> {
  const exited = once(collector!, 'exit')
  collector!.kill('SIGKILL')
  await exited
}
const post = (body: object) =>
  fetch(`http://127.0.0.1:${port}/v1/logs`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'cob-otel-'))
  port = await freePort()
  writeFileSync(
    join(dir, 'config.yaml'),
    JSON.stringify({
      receivers: { otlp: { protocols: { http: { endpoint: `127.0.0.1:${port}` } } } },
      exporters: { lines: { path: join(dir, 'taken.jsonl') } },
      service: {
        telemetry: { metrics: { level: 'none' } },
        pipelines: { logs: { receivers: ['otlp'], exporters: ['lines'] }, traces: { receivers: ['otlp'], exporters: ['lines'] } },
      },
    }),
  )
  await startCollector()
  cloud = await startFastCloud({ COB_WARM_BROWSERS: '0', COB_ALLOW_HOST_LOOPBACK: '1' })
  expect((await cloud.send('POST', '/telemetry/destinations', { name: 'collector', endpoint: `http://127.0.0.1:${port}` })).status).toBe(201)
})
afterAll(async () => {
  await cloud?.[Symbol.asyncDispose]()
  if (collector?.exitCode === null) await killCollector()
  rmSync(dir, { recursive: true, force: true })
})

const lines = (): Line[] => {
  const file = join(dir, 'taken.jsonl')
  // The last line may be incomplete, so leave it out.
  return existsSync(file)
    ? readFileSync(file, 'utf8')
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line) as Line)
    : []
}
const valueOf = (attributes: Attribute[], key: string) => attributes.find((one) => one.key === key)?.value
const isOf =
  (id: string) =>
  ({ resource }: { resource: { attributes: Attribute[] } }) =>
    valueOf(resource.attributes, 'session.id')?.stringValue === id
const records = (id: string) =>
  lines().flatMap(({ resourceLogs = [] }) => resourceLogs.filter(isOf(id)).flatMap(({ scopeLogs }) => scopeLogs.flatMap(({ logRecords }) => logRecords)))
const spans = (id: string) =>
  lines().flatMap(({ resourceSpans = [] }) => resourceSpans.filter(isOf(id)).flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans)))
const numbers = (id: string) => records(id).map(({ attributes }) => Number(valueOf(attributes, 'cob.event.seq')?.intValue))
const create = async () =>
  (await cloud.create({ telemetry: { ...EVERYTHING, export: { otlp: { destination: { name: 'collector' } } } }, timeout_seconds: 600 })).session_id
const destination = async () => (await (await cloud.fetch('/telemetry/destinations/collector')).json()) as { last_error?: string; consecutive_failures: number }

test('the collector refuses what is not OTLP, so that what it takes is', async () => {
  expect((await post({ resourceLogs: [{ scopeLogs: [{ logRecords: [{ timeUnixNano: 'now' }] }] }] })).status).toBe(400)
  expect((await post({ resourceLogs: [{ scopeLogs: [{ logRecords: [{ traceId: 'xyz' }] }] }] })).status).toBe(400)
})

test('it takes events of every type, with data of every kind', async () => {
  const id = await create()
  const data = {
    text: `${'😀'.repeat(5_000)}\n\t"`,
    url: 'http://a.test/?x=1',
    number: 1.5,
    large: 1e300,
    negative: -7,
    flag: false,
    nothing: null,
    list: [1, 'two', false],
    objects: [{ a: [1] }, null],
    deep: { a: { b: { c: { d: { e: { f: 1 } } } } } },
    many: Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`key ${at}`, at])),
    '': 'an empty name',
    duration_ms: 3.25,
    status: 503,
    operation_id: 'operation',
    frame_id: 'f',
    loader_id: 'l',
  }
  // All events that a session captures; the service creates the others itself.
  const sent = EVENT_TYPES.filter((type) => TYPES[type] !== 'platform')
  await emit(cloud.paths, id, ...sent.map((type): [typeof type, typeof data] => [type, data]))
  const captured = await until('the archive', SOON_MS, async () => {
    const all = await allOf(cloud.fetch, id)
    return all.length === sent.length && all
  })
  await until('all of them', SOON_MS, () => new Set(numbers(id)).size >= captured.length, { everyMs: 100 })
  expect(records(id).map(({ eventName }) => eventName)).toEqual(captured.map(({ event }) => `cob.${event.type}`))
  expect(records(id).map(({ timeUnixNano }) => timeUnixNano)).toEqual(captured.map(({ event }) => `${event.ts}000`))
  expect(spans(id).map(({ name }) => name)).toEqual(expect.arrayContaining(['operation', 'page load', 'cdp connection']))
  expect(await destination()).toMatchObject({ consecutive_failures: 0 })
  expect(await destination()).not.toHaveProperty('last_error')
})

test('a minute without it loses nothing', { timeout: 5 * 60_000 }, async () => {
  const id = await create()
  await say(cloud.paths, id, 0, 100)
  await until('the first', SOON_MS, () => numbers(id).length >= 100, { everyMs: 100 })
  await killCollector()
  const away = Date.now() + AWAY_MS
  let said = 100
  while (Date.now() < away) {
    await say(cloud.paths, id, said, 10)
    said += 10
    await sleep(500)
  }
  expect((await destination()).consecutive_failures).toBeGreaterThan(0)
  await startCollector()
  await until('all of them', 2 * SOON_MS, () => new Set(numbers(id)).size >= said, { everyMs: 200 })
  expect(numbers(id)).toEqual(Array.from({ length: said }, (_, at) => at + 1))
  expect((await destination()).consecutive_failures).toBe(0)
})
