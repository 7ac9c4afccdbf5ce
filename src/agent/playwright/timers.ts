// The timers that code sets, known so that they end with its run. Playwright's own are left alone.
import { syncBuiltinESMExports } from 'node:module'
import timers from 'node:timers'

type Starter = (...args: unknown[]) => object
interface Timers {
  start: Starter
  stop: (handle: object) => void
}

/** Frames of stacks that are none of a caller's code. */
const OURS = /\/opt\/cob\/|\/node_modules\/|\/src\/agent\/|node:internal/

/** Puts functions that keep count in the place of the global ones. What is returned stops every timer that code has set and not stopped. */
export function watchTimers(): () => void {
  const running = new Map<object, Timers['stop']>()
  const kinds: Record<string, Timers['stop']> = {
    setTimeout: (handle) => clearTimeout(handle as NodeJS.Timeout),
    setInterval: (handle) => clearInterval(handle as NodeJS.Timeout),
    setImmediate: (handle) => clearImmediate(handle as NodeJS.Immediate),
  }
  for (const [name, stop] of Object.entries(kinds)) {
    const original = Reflect.get(globalThis, name) as Starter
    const counting = (...args: unknown[]): object => {
      const [callback, ...rest] = args
      if (typeof callback !== 'function' || isOurs(counting)) return original(...args)
      const handle = original(
        (...values: unknown[]) => {
          if (name !== 'setInterval') running.delete(handle)
          return Reflect.apply(callback, handle, values) as unknown
        },
        ...rest,
      )
      running.set(handle, stop)
      return handle
    }
    // util.promisify finds its own way in a property.
    const { name: own, length, ...properties } = Object.getOwnPropertyDescriptors(original) as PropertyDescriptorMap
    Object.defineProperties(counting, { ...properties, ...(own && { name: own }), ...(length && { length }) })
    Reflect.set(globalThis, name, counting)
    Reflect.set(timers, name, counting)
  }
  syncBuiltinESMExports()
  return () => {
    for (const [handle, stop] of running) stop(handle)
    running.clear()
  }
}

/** Whether `called` was called by Playwright, by Node, or by us. */
function isOurs(called: (...args: never[]) => unknown): boolean {
  const limit = Error.stackTraceLimit
  Error.stackTraceLimit = 1
  const place: { stack?: string } = {}
  Error.captureStackTrace(place, called)
  Error.stackTraceLimit = limit
  return OURS.test(place.stack ?? '')
}
