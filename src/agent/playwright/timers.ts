// Records the timers that code sets, so that they can be stopped at the end of its run. Playwright's own timers are left alone.
import { syncBuiltinESMExports } from 'node:module'
import timers from 'node:timers'

type Starter = (...args: unknown[]) => object
interface Timers {
  start: Starter
  stop: (handle: object) => void
}

/** Matches stack frames outside the caller's code. */
const OURS = /\/opt\/cob\/|\/node_modules\/|\/src\/agent\/|node:internal/

/** Replaces the global timer functions with recording ones. Returns a function that stops all timers that the code has not stopped. */
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
    // Copy the properties: util.promisify needs one of them.
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

/** Whether Playwright, Node or the agent called `called`. It reads only the one stack frame, because formatting the whole text takes longer. */
function isOurs(called: (...args: never[]) => unknown): boolean {
  const { stackTraceLimit, prepareStackTrace } = Error
  const place: { stack?: string } = {}
  Error.stackTraceLimit = 1
  Error.prepareStackTrace = (_place, frames) => frames[0]?.getFileName() ?? ''
  try {
    Error.captureStackTrace(place, called)
    return OURS.test(place.stack ?? '')
  } finally {
    Object.assign(Error, { stackTraceLimit, prepareStackTrace })
  }
}
