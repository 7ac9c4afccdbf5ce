// What a run leaves behind in its process. One that left something is not given to the next run.

/** Objects that code could change for all that comes after it. */
const SHARED: object[] = [globalThis, console, process, JSON, Math, Reflect, Promise, Object, Array]
const PROTOTYPES = [Object, Array, String, Number, Function, Promise, Map, Set, Error, Date, RegExp, Buffer].map(({ prototype }) => prototype as object)

interface Snapshot {
  properties: Map<object, Map<PropertyKey, PropertyDescriptor>>
  listeners: string
  surroundings: string
}

/** What is left: nothing; what may be about to end (a socket); what will stay. */
export type Traces = 'none' | 'passing' | 'lasting'

/** What keeps a process running, by kind: sockets, children. */
export type Resources = ReadonlyMap<string, number>

/** Timers are seen to elsewhere: Playwright has some of its own. */
const TIMERS = ['Timeout', 'Immediate']

export function resources(): Resources {
  const counts = new Map<string, number>()
  for (const kind of process.getActiveResourcesInfo()) if (!TIMERS.includes(kind)) counts.set(kind, (counts.get(kind) ?? 0) + 1)
  return counts
}

/** Remembers how the process is now; what is returned compares. `usual` is what it may have for itself. */
export function watchTraces(): (usual: Resources) => Traces {
  const before = take()
  return (usual) => {
    if (!same(before, take())) return 'lasting'
    return [...resources()].every(([kind, count]) => count <= (usual.get(kind) ?? 0)) ? 'none' : 'passing'
  }
}

function take(): Snapshot {
  // By symbols Node's own parts keep things on globalThis, from when they are first used.
  const keys = (object: object) => Reflect.ownKeys(object).filter((key) => object !== globalThis || typeof key === 'string')
  const of = (object: object) => new Map(keys(object).map((key) => [key, Reflect.getOwnPropertyDescriptor(object, key)!]))
  return {
    properties: new Map([...SHARED, ...PROTOTYPES].map((object) => [object, of(object)])),
    listeners: process
      .eventNames()
      .map((name) => `${String(name)} ${process.listenerCount(name)}`)
      .join(),
    surroundings: JSON.stringify([process.cwd(), process.env, process.umask(), process.exitCode]),
  }
}

const same = (before: Snapshot, after: Snapshot): boolean =>
  before.listeners === after.listeners &&
  before.surroundings === after.surroundings &&
  [...after.properties].every(([object, now]) => {
    const then = before.properties.get(object)!
    return now.size === then.size && [...now].every(([key, descriptor]) => unchanged(then.get(key), descriptor))
  })

function unchanged(then: PropertyDescriptor | undefined, now: PropertyDescriptor): boolean {
  if (!then) return false
  // Node makes some globals only when they are first looked at: what was a getter is a value then.
  if (then.get) return true
  return Object.is(then.value, now.value) && then.get === now.get && then.set === now.set
}
