// Work that is shared by all callers that have requested it.
import { expect, test } from 'vitest'
import { together } from './together.ts'

test('who asks while it runs shares the next run, which sees what they have changed; a run that fails does not keep the next one from running', async () => {
  const runs: PromiseWithResolvers<void>[] = []
  const work = together(() => {
    const run = Promise.withResolvers<void>()
    runs.push(run)
    return run.promise
  })
  const first = work()
  await expect.poll(() => runs.length).toBe(1)
  const [second, third] = [work(), work()]
  runs[0]!.reject(new Error('not now'))
  await expect(first).rejects.toThrow('not now')
  await expect.poll(() => runs.length).toBe(2)
  runs[1]!.resolve()
  await Promise.all([second, third])
  expect(runs).toHaveLength(2)
})
