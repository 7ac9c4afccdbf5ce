// Starts an object before the first test of a file or a describe, and ends it after the last.
import { aroundAll } from 'vitest'

/**
 * Returns an object at once. Before the first test, and before every beforeAll of the same file or describe, it gets the properties of the plain object that `start`
 * resolves with. Then it is frozen. Several objects start in order and end in reverse order, also when one of them fails.
 */
export function forTests<T extends AsyncDisposable>(start: () => Promise<T>): T {
  const started = {} as T
  aroundAll(async (runTests) => {
    await using made = await start()
    // Copy getters as getters.
    Object.freeze(Object.defineProperties(started, Object.getOwnPropertyDescriptors(made)))
    await runTests()
  })
  return started
}
