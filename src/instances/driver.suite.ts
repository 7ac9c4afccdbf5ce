// The promises of every driver, as one suite that runs over each of them. Not a test file itself.
import { connect } from 'node:net'
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { computer } from '../agent/computer/contract.ts'
import { newId } from '../base/ids.ts'
import { dataPaths, type DataPaths } from '../base/paths.ts'
import { until, within } from '../base/wait.ts'
import { openStream } from '../http/client.ts'
import type { Endpoint } from '../http/endpoint.ts'
import { adoptAll, USUAL_MAX_SCREEN, type Driver, type Instance, type InstanceSpec } from './driver.ts'

/** A running agent answers at once. This only limits the wait on an overloaded machine. */
const ANSWER_MS = 30_000
/** Time between the end of an instance and the moment when its driver notices. */
const EXIT_MS = 10_000

export const spec = (): InstanceSpec => ({ id: newId(), viewport: { width: 1024, height: 768, refresh_rate: 60 }, maxScreen: USUAL_MAX_SCREEN, apiPorts: [] })

/** A screenshot of the instance: the answer's status, and width and height of the PNG. @throws when it is no PNG. */
export async function picture({ agent }: Instance): Promise<{ status: number | undefined; width: number; height: number }> {
  const response = await openStream(agent, computer.captureScreenshot, {}, AbortSignal.timeout(ANSWER_MS))
  const chunks: Buffer[] = []
  for await (const chunk of response as AsyncIterable<Buffer>) chunks.push(chunk)
  const png = Buffer.concat(chunks)
  if (png.toString('latin1', 1, 4) !== 'PNG') throw new Error(`not a PNG (${response.statusCode}): ${png.toString('utf8', 0, 300)}`)
  return { status: response.statusCode, width: png.readUInt32BE(16), height: png.readUInt32BE(20) }
}

/** Resolves with the error code of a refused connection attempt; undefined when the connection is accepted. */
export async function refusal(endpoint: Endpoint): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>()
  const socket = connect('socketPath' in endpoint ? { path: endpoint.socketPath } : { host: endpoint.host, port: endpoint.port })
  socket.on('connect', () => resolve(undefined))
  socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code))
  try {
    return await within('a connection or its refusal', ANSWER_MS, promise)
  } finally {
    socket.destroy()
  }
}

/**
 * Runs the suite. `makeDriver` is called once for the driver under test, and once more for a second control plane over the same data directory. `leftOf` is the
 * driver's own check that nothing is left of an instance on its host; it returns the names of remains.
 */
export function driverSuite(name: string, makeDriver: (paths: DataPaths) => Driver, leftOf: (paths: DataPaths, id: string) => string[]): void {
  describe(`the ${name} driver`, () => {
    const signal = new AbortController().signal
    let paths: DataPaths
    let driver: Driver
    const started: string[] = []
    const specOf = (): InstanceSpec => {
      const made = spec()
      started.push(made.id)
      return made
    }
    const drivers: Driver[] = []
    const another = (): Driver => {
      const made = makeDriver(paths)
      drivers.push(made)
      return made
    }

    beforeAll(() => {
      paths = dataPaths(mkdtempSync(join(tmpdir(), 'cob-driver-')))
      driver = another()
    })
    afterAll(async () => {
      const left = started.flatMap((id) => leftOf(paths, id))
      await Promise.all(drivers.map((made) => made[Symbol.asyncDispose]()))
      await until('what was removed to be gone', ANSWER_MS, () => !existsSync(paths.trash) || readdirSync(paths.trash).length === 0)
      rmSync(paths.root, { recursive: true, force: true })
      expect(left).toEqual([])
    })

    test('a started instance answers at its agent with a screenshot', async () => {
      await using instance = await driver.start(specOf(), signal)
      expect(await picture(instance)).toEqual({ status: 200, width: 1024, height: 768 })
    })

    test('another control plane finds a running instance, and can use and end it', async () => {
      await using instance = await driver.start(specOf(), signal)
      const found = await adoptAll(another())
      expect(found.map(({ id }) => id)).toEqual([instance.id])
      expect((await picture(found[0]!)).status).toBe(200)
      await found[0]![Symbol.asyncDispose]()
      await within('the end of the instance', EXIT_MS, Promise.all([instance.exited, found[0]!.exited]))
      expect(leftOf(paths, instance.id)).toEqual([])
      expect(await adoptAll(driver)).toEqual([])
    })

    test('an instance that another control plane watches is let go without ending it; its end is not heard of then', async () => {
      const instance = await driver.start(specOf(), signal)
      const [other, third] = [(await adoptAll(another()))[0]!, (await adoptAll(another()))[0]!]
      let received = false
      void instance.exited.then(() => (received = true))
      instance.unwatch()
      expect((await picture(other)).status).toBe(200)
      expect((await picture(instance)).status).toBe(200)
      await other[Symbol.asyncDispose]()
      await within('the end of the instance', EXIT_MS, Promise.all([other.exited, third.exited]))
      expect(received).toBe(false)
      expect(leftOf(paths, instance.id)).toEqual([])
      // A caller that has let an instance go can watch it again, and end it.
      const again = await driver.start(specOf(), signal)
      again.unwatch()
      await using found = (await adoptAll(driver))[0]!
      await found[Symbol.asyncDispose]()
      expect((await within('the end of the instance', EXIT_MS, found.exited)).reason).not.toBe('')
    })

    test('ending an instance twice equals ending it once', async () => {
      const instance = await driver.start(specOf(), signal)
      await Promise.all([instance[Symbol.asyncDispose](), instance[Symbol.asyncDispose]()])
      await instance[Symbol.asyncDispose]()
      expect((await within('exited', EXIT_MS, instance.exited)).reason).not.toBe('')
    })

    test('an ended instance leaves nothing, and nothing answers for it', async () => {
      const instance = await driver.start(specOf(), signal)
      expect(leftOf(paths, instance.id)).not.toEqual([])
      expect(await refusal(instance.agent)).toBeUndefined()
      await instance[Symbol.asyncDispose]()
      expect(leftOf(paths, instance.id)).toEqual([])
      expect(await refusal(instance.agent)).toMatch(/^(ENOENT|ECONNREFUSED|EHOSTUNREACH)$/)
      expect(await adoptAll(driver)).toEqual([])
    })

    test("a start whose caller has left is refused with the caller's reason, and leaves nothing", async () => {
      await expect(driver.start(specOf(), AbortSignal.abort(new Error('the caller left')))).rejects.toThrow('the caller left')
      expect(started.flatMap((id) => leftOf(paths, id))).toEqual([])
      expect(await adoptAll(driver)).toEqual([])
    })

    test('a start whose caller leaves meanwhile leaves nothing', async () => {
      const caller = new AbortController()
      const starting = driver.start(specOf(), caller.signal)
      setImmediate(() => caller.abort(new Error('the caller left')))
      // The start may have finished before the abort. Then the instance has to be ended.
      const outcome = await starting.catch((error: Error) => error)
      if (outcome instanceof Error) expect(outcome.message).toBe('the caller left')
      else await outcome[Symbol.asyncDispose]()
      expect(started.flatMap((id) => leftOf(paths, id))).toEqual([])
      expect(await adoptAll(driver)).toEqual([])
    })

    test('an instance sleeps until any control plane wakes it, not while one has just used it, and can be ended while it sleeps', async (context) => {
      const { standby } = driver
      if (!standby) return context.skip('this machine cannot stop processes')
      await using instance = await driver.start(specOf(), signal)
      const { id } = instance
      const other = another().standby!
      expect([await standby.sleep(id, 0, signal), standby.isAsleep(id), other.isAsleep(id)]).toEqual([true, true, true])
      other.wake(id)
      expect(standby.isAsleep(id)).toBe(false)
      expect((await picture(instance)).status).toBe(200)
      expect([await standby.sleep(id, ANSWER_MS, signal), standby.isAsleep(id)]).toEqual([false, false])
      const going = standby.sleep(id, 0, signal)
      other.wake(id)
      expect([await going, standby.isAsleep(id)]).toEqual([false, false])
      expect(await standby.sleep(id, 0, AbortSignal.abort())).toBe(false)
      expect(await standby.sleep(id, 0, signal)).toBe(true)
      await instance[Symbol.asyncDispose]()
      expect([leftOf(paths, id), standby.isAsleep(id)]).toEqual([[], false])
      standby.wake(id)
    })

    test('two instances live and end independently', async () => {
      await using scope = new AsyncDisposableStack()
      const [one, other] = (
        await Promise.all([driver.start(specOf(), signal), driver.start({ ...specOf(), viewport: { width: 640, height: 480, refresh_rate: 60 } }, signal)])
      ).map((instance) => scope.use(instance))
      expect((await adoptAll(driver)).map(({ id }) => id).toSorted()).toEqual([one!.id, other!.id].toSorted())
      expect(await Promise.all([picture(one!), picture(other!)])).toEqual([
        expect.objectContaining({ width: 1024, height: 768 }),
        expect.objectContaining({ width: 640, height: 480 }),
      ])
      await one![Symbol.asyncDispose]()
      expect((await adoptAll(driver)).map(({ id }) => id)).toEqual([other!.id])
      expect((await picture(other!)).status).toBe(200)
    })
  })
}
