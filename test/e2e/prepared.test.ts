// Prepared sandboxes of a real service: a create gets one, and nothing of them is left, however the service ends.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startCloud, type Cloud } from '../support/cloud.ts'

/** Without warm browsers, so that each create starts one. */
const NONE_WARM = { COB_WARM_BROWSERS: '0', COB_HEADLESS: 'auto', COB_PREPARED_SANDBOXES: '1' }
/** Preparing takes a third of a second alone. */
const PREPARED = { timeout: 30_000 }

interface Recorded {
  isPrepared?: boolean
  processes: { pid: number }[]
}

/** The sandboxes of a service, by id. */
function sandboxes({ dataDir }: Cloud): Map<string, Recorded> {
  const dir = join(dataDir, 'instances')
  const files = readdirSync(dir).map((id) => [id, join(dir, id, 'instance.json')] as const)
  return new Map(files.flatMap(([id, file]) => (existsSync(file) ? [[id, JSON.parse(readFileSync(file, 'utf8')) as Recorded] as const] : [])))
}

/** The id of the one prepared sandbox beside those that are `known`. */
async function prepared(cloud: Cloud, ...known: string[]): Promise<string> {
  const ready = () => [...sandboxes(cloud)].flatMap(([id, { isPrepared }]) => (isPrepared && !known.includes(id) ? [id] : []))
  await expect.poll(() => ready().length, PREPARED).toBe(1)
  return ready()[0]!
}

test.each([true, false])('a create with nothing warm gets a prepared sandbox (headless: %s), with its viewport and its own files', async (headless) => {
  await using cloud = await startCloud(NONE_WARM)
  const first = await cloud.client.browsers.create({ headless })
  const ready = await prepared(cloud)
  const second = await cloud.client.browsers.create({ headless, viewport: { width: 800, height: 600 } })
  expect(second.session_id).toBe(ready)
  for (const { session_id: id } of [first, second]) {
    await cloud.client.browsers.fs.writeFile(id, id, { path: '/home/kernel/mine' })
    expect(await (await cloud.client.browsers.fs.readFile(id, { path: '/home/kernel/mine' })).text()).toBe(id)
  }
  const code = 'await page.goto("data:text/html,<title>here</title>"); return [await page.title(), await page.evaluate("screen.width")]'
  expect((await cloud.client.browsers.playwright.execute(ready, { code })).result).toEqual(['here', 800])
})

test('a create that finds no seat gives its sandbox back', async () => {
  await using cloud = await startCloud({ ...NONE_WARM, COB_MAX_BROWSERS: '1' })
  const { session_id: first } = await cloud.client.browsers.create({})
  const ready = await prepared(cloud)
  await expect(cloud.client.browsers.create({}, { maxRetries: 0 })).rejects.toMatchObject({ status: 429 })
  await cloud.remove(first)
  expect((await cloud.client.browsers.create({})).session_id).toBe(ready)
})

test('one whose agent was killed is replaced, and no create gets it', async () => {
  await using cloud = await startCloud(NONE_WARM)
  await cloud.client.browsers.create({})
  const dead = await prepared(cloud)
  process.kill(sandboxes(cloud).get(dead)!.processes[0]!.pid, 'SIGKILL')
  await expect.poll(() => sandboxes(cloud).has(dead), PREPARED).toBe(false)
  const { session_id: id } = await cloud.client.browsers.create({})
  expect(id).not.toBe(dead)
})

test('a service that was killed leaves none: the next one removes them, and adopts the session that was started from one', async () => {
  await using cloud = await startCloud(NONE_WARM)
  await cloud.client.browsers.create({})
  const id = await prepared(cloud)
  expect((await cloud.client.browsers.create({})).session_id).toBe(id)
  const left = await prepared(cloud)
  await cloud.kill()
  expect(sandboxes(cloud).has(left)).toBe(true)
  await cloud.start()
  await expect.poll(() => sandboxes(cloud).has(left), PREPARED).toBe(false)
  const { result } = await cloud.client.browsers.playwright.execute(id, { code: 'return 1 + 1' })
  expect(result).toBe(2)
})
