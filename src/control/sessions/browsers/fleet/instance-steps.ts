// The steps of a session's end that end its instance.
import type { EndStep } from '../end-step.ts'
import type { Registry } from './registry.ts'

/** The step that kills what runs in the instance. A session is out of use after it. The next step waits until all of it has gone, and looks for what was missed. */
export const killInstance = (registry: Registry): EndStep => ({
  name: 'kill',
  limitMs: 1_000,
  mayFail: true,
  run({ id }) {
    registry.get(id)?.kill()
    return undefined
  },
})

/** The step that ends the instance itself. Its driver has time limits of its own, below this one. */
export const removeInstance = (registry: Registry): EndStep => ({
  name: 'instance',
  limitMs: 60_000,
  mayFail: false,
  isBehind: true,
  run({ id }) {
    const instance = registry.get(id)
    return instance === undefined ? undefined : Promise.resolve(instance[Symbol.asyncDispose]())
  },
})
