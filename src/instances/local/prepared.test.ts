// Prepared sandboxes: which are kept, how many, and when they are made. The sandboxes are pretended; real ones: test/e2e/prepared.test.ts.
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { silentLog } from '../../base/log.ts'
import { USUAL_MAX_SCREEN, type Exit, type Instance, type InstanceForm } from '../driver.ts'
import { PreparedSandboxes } from './prepared.ts'

const FULL: InstanceForm = { viewport: { width: 1024, height: 768, refresh_rate: 60 }, maxScreen: USUAL_MAX_SCREEN, apiPorts: [] }
const LEAN: InstanceForm = { ...FULL, lean: true }
const LARGE: InstanceForm = { ...FULL, maxScreen: { width: 4000, height: 3000 } }

interface Pretended extends Instance {
  form: InstanceForm
  ends(): void
}
let living: Pretended[]
let steps: string[]
let gate: Promise<void>
let freeBytes: number

const shelves = (most = 4) =>
  new PreparedSandboxes<Pretended>({
    most,
    log: silentLog,
    memory: () => ({ totalBytes: 8, freeBytes }),
    async make(id, form) {
      steps.push('prepare')
      await gate
      const exit = Promise.withResolvers<Exit>()
      const over = () => {
        living = living.filter((one) => one !== made)
        exit.resolve({ reason: 'ended' })
      }
      const made: Pretended = {
        id,
        form,
        agent: { socketPath: 'none' },
        exited: exit.promise,
        ends: over,
        unwatch: () => {},
        kill: over,
        [Symbol.asyncDispose]: async () => over(),
      }
      living.push(made)
      return { instance: made, loaded: Promise.resolve() }
    },
  })

/** A start of this form. Resolves with the id of the prepared sandbox that it got. */
async function start(from: PreparedSandboxes<Pretended>, form: InstanceForm): Promise<string | undefined> {
  using reserved = from.reserve(form)
  return from.aside(async () => (reserved ? from.take(reserved.id)?.id : undefined))
}
/** What is being prepared is ready after this. */
const settled = () => vi.advanceTimersByTimeAsync(1)
const forms = () => living.map(({ form }) => form)

beforeEach(() => {
  vi.useFakeTimers()
  living = []
  steps = []
  freeBytes = 8
  gate = Promise.resolve()
})
afterEach(() => void vi.useRealTimers())

test('after the first start of a form one is prepared, and the next start of that form gets it', async () => {
  await using prepared = shelves()
  expect(await start(prepared, FULL)).toBeUndefined()
  await settled()
  expect(forms()).toEqual([FULL])
  expect(await start(prepared, LEAN)).toBeUndefined()
  const { id } = living[0]!
  expect(await start(prepared, FULL)).toBe(id)
})

test('none is prepared while a start is under way', async () => {
  await using prepared = shelves()
  const first = Promise.withResolvers<void>()
  const going = prepared.aside(() => first.promise.then(() => void steps.push('started')))
  await start(prepared, FULL)
  await settled()
  expect(steps).toEqual([])
  first.resolve()
  await going
  await settled()
  expect(steps).toEqual(['started', 'prepare'])
})

test('as many are kept as starts came at about the same time, up to the setting, and one at a time is ended when they do not come any more', async () => {
  await using prepared = shelves(3)
  await Promise.all(Array.from({ length: 5 }, () => start(prepared, FULL)))
  await settled()
  expect(living).toHaveLength(3)
  await vi.advanceTimersByTimeAsync(15 * 60_000)
  expect(living).toHaveLength(1)
})

test('of more than two forms, the latest two are kept', async () => {
  await using prepared = shelves()
  for (const form of [FULL, LEAN, LARGE]) {
    await start(prepared, form)
    await settled()
  }
  expect(forms()).toEqual([LEAN, LARGE])
})

test('a reserved one that was not started goes to the next start; one that ended meanwhile does not', async () => {
  await using prepared = shelves()
  await start(prepared, FULL)
  await settled()
  const { id } = living[0]!
  prepared.reserve(FULL)![Symbol.dispose]()
  await settled()
  expect(prepared.reserve(FULL)?.id).toBe(id)
  await using other = shelves()
  living = []
  await start(other, FULL)
  await settled()
  living[0]!.ends()
  await settled()
  expect(other.reserve(FULL)).toBeUndefined()
})

test('none is kept while less than an eighth of the memory is free', async () => {
  await using prepared = shelves()
  await start(prepared, FULL)
  await settled()
  freeBytes = 0.9
  await vi.advanceTimersByTimeAsync(60_000)
  expect(living).toEqual([])
  freeBytes = 1
  await vi.advanceTimersByTimeAsync(60_000)
  expect(living).toHaveLength(1)
})

test('with 0 none is prepared', async () => {
  await using prepared = shelves(0)
  await start(prepared, FULL)
  await settled()
  expect(steps).toEqual([])
})

test('when the service stops, nothing is left, also of one that is just being prepared', async () => {
  const prepared = shelves()
  await start(prepared, FULL)
  await settled()
  const reserved = prepared.reserve(FULL)!
  const slow = Promise.withResolvers<void>()
  gate = slow.promise
  await start(prepared, LEAN)
  const ended = prepared[Symbol.asyncDispose]()
  slow.resolve()
  await ended
  reserved[Symbol.dispose]()
  await settled()
  expect(living).toEqual([])
})
