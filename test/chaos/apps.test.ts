// Apps under chaos: many concurrent runs of which some crash, and repeated deployments during constant calls.
import { toFile } from '@onkernel/sdk'
import { createServer } from 'node:http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { zipOf } from '../support/apps.ts'
import { startCloud, type Cloud } from '../support/cloud.ts'
import { amount } from '../support/long.ts'
import { serveSockets } from '../support/upstreams.ts'

const RUNS = amount(20, 100)
const LINES = 5
const DEPLOYS = amount(3, 20)
const SDK = JSON.stringify({ name: 'storm', private: true, type: 'module', dependencies: { '@onkernel/sdk': '0.84.0' } })
const SOURCE = (version: number) => `
import Kernel from '@onkernel/sdk'
const app = new Kernel().app('storm')
app.action('work', async (ctx, { n, tell }) => {
  await fetch(tell + n)
  for (let i = 0; i < ${LINES}; i++) console.log(n + ':' + i)
  if (n % 10 === 0) process.kill(process.pid, 'SIGKILL')
  return n
})
app.action('version', async (ctx, payload) => ${version})
`

let cloud: Cloud
/** Counts the runs that begin. Apps call it on the machine's loopback, which this service's sandboxes may reach. */
let counter: { port: number }
const begun = new Map<string, number>()
const ended = new AsyncDisposableStack()
beforeAll(async () => {
  const server = createServer((request, response) => {
    begun.set(request.url!, (begun.get(request.url!) ?? 0) + 1)
    response.end()
  })
  counter = ended.use(await serveSockets(server))
  cloud = ended.use(await startCloud({ COB_MAX_INVOCATIONS: String(RUNS + 10), COB_WARM_BROWSERS: '0', COB_APP_MEMORY_MB: '512' }))
})
afterAll(() => ended.disposeAsync())

async function deploy(version: number): Promise<void> {
  const file = await toFile(await zipOf({ 'package.json': SDK, 'index.js': SOURCE(version) }), 'app.zip')
  const { id } = await cloud.client.deployments.create({ file, entrypoint_rel_path: 'index.js' })
  for await (const event of await cloud.client.deployments.follow(id, {}, { signal: AbortSignal.timeout(90_000) }))
    if (event.event === 'deployment_state' && event.deployment.status === 'running') return
  throw new Error(`deployment ${version} did not come to run`)
}

test(`of ${RUNS} concurrent runs, a tenth of which crash, each runs once, and no line is lost`, async () => {
  await deploy(0)
  const tell = `http://host.cob.internal:${counter.port}/`
  const runs = await Promise.all(
    Array.from({ length: RUNS }, async (_, n) => {
      const call = { app_name: 'storm', action_name: 'work', version: 'latest', async: true, payload: JSON.stringify({ n, tell }) }
      return { n, id: (await cloud.client.invocations.create(call)).id }
    }),
  )
  const ends = await Promise.all(
    runs.map(async ({ n, id }) => {
      const lines: string[] = []
      let status = ''
      for await (const event of await cloud.client.invocations.follow(id, {}, { signal: AbortSignal.timeout(110_000) })) {
        if (event.event === 'log') lines.push(event.message)
        if (event.event === 'invocation_state') status = event.invocation.status
      }
      return { n, lines, status }
    }),
  )
  for (const { n, lines, status } of ends) {
    expect([n, status]).toEqual([n, n % 10 === 0 ? 'failed' : 'succeeded'])
    expect(lines).toEqual(Array.from({ length: LINES }, (_, i) => `${n}:${i}`))
  }
  expect([...begun.values()].filter((times) => times !== 1)).toEqual([])
  expect(begun.size).toBe(RUNS)
})

test(`during ${DEPLOYS} deployments in a row, each call is answered by the newest version`, async () => {
  let newest = 0
  let stop = false
  const calls: { least: number; got: number; most: number }[] = []
  const caller = async () => {
    while (!stop) {
      const least = newest
      const { output, status_reason: reason } = await cloud.client.invocations.create({
        app_name: 'storm',
        action_name: 'version',
        version: 'latest',
        payload: '1',
      })
      if (output === null || output === undefined) throw new Error(`a call failed: ${reason}`)
      // The next version may have become active during the call.
      calls.push({ least, got: Number(output), most: newest + 1 })
    }
  }
  const calling = caller()
  calling.catch(() => {})
  for (let version = 1; version <= DEPLOYS; version++) {
    await deploy(version)
    newest = version
  }
  stop = true
  await calling
  expect(calls.length).toBeGreaterThan(DEPLOYS)
  expect(calls.filter(({ least, got, most }) => got < least || got > most)).toEqual([])
})
