// Detects side effects that a run left in its process. A process with side effects takes no further run.

/** Shared objects. A change to one of them would affect later runs. */
const SHARED: object[] = [globalThis, console, process, JSON, Math, Reflect, Promise, Object, Array]
const PROTOTYPES = [Object, Array, String, Number, Function, Promise, Map, Set, Error, Date, RegExp, Buffer].map(({ prototype }) => prototype as object)

interface Snapshot {
  properties: Map<object, Map<PropertyKey, PropertyDescriptor>>
  listeners: string
  surroundings: string
}

/** Side effects: none, some that may end soon (a socket), or permanent ones. */
export type Traces = 'none' | 'passing' | 'lasting'

/** The number of resources that keep the process running, by kind: sockets, children. */
export type Resources = ReadonlyMap<string, number>

/** Not counted here, because Playwright has its own timers. timers.ts stops those of the code. */
const TIMERS = ['Timeout', 'Immediate']

export function resources(): Resources {
  const counts = new Map<string, number>()
  for (const kind of process.getActiveResourcesInfo()) if (!TIMERS.includes(kind)) counts.set(kind, (counts.get(kind) ?? 0) + 1)
  return counts
}

/** Takes a snapshot of the process. Returns a function that compares with it. `usual` are the worker's own resources. */
export function watchTraces(): (usual: Resources) => Traces {
  const before = take()
  return (usual) => {
    if (!same(before, take())) return 'lasting'
    return [...resources()].every(([kind, count]) => count <= (usual.get(kind) ?? 0)) ? 'none' : 'passing'
  }
}

function take(): Snapshot {
  // Ignore symbols on globalThis: Node's own modules add them when they are first used.
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
  // Node creates some globals when they are first read: a getter then becomes a value.
  if (then.get) return true
  return Object.is(then.value, now.value) && then.get === now.get && then.set === now.set
}
