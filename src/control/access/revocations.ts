// Ends requests whose key or sign-in is deleted or expires: streams, downloads, long calls.
import type { Log } from '../../base/log.ts'
import { sleep } from '../../base/wait.ts'
import { fault } from '../../http/fault.ts'
import type { Guard } from '../../http/mount.ts'
import { isAccount, type Role } from '../../http/route.ts'
import type { Db } from '../../store/db.ts'
import { stillValid } from './keys.ts'
import { isAtLeast, rolesNow } from './members/person.ts'

/**
 * Only requests that have run for longer than this are ended. A shorter one would be over before its key is checked; and the rotation by which a key ends
 * itself must return the new key.
 */
const LONG_MS = 1_000
/** Interval of checking the keys of long requests: one query for all of them. */
const LOOK_MS = 500

interface Running {
  since: number
  end: (reason: string) => void
  isSignIn: boolean
  /** The person who made the request, with the role and the project at that time. */
  of: { person: string; project: string; role: Role } | undefined
}

/** The present roles of these people. */
type Roles = (people: string[]) => ReturnType<typeof rolesNow>

/**
 * Watches the keys of this replica's running requests, and the roles of their people, until disposed. While the database is away, requests continue. `valid`
 * tells which keys are still valid: {@link stillValid}, or a test's own.
 */
export function watchKeys(
  db: Db,
  log: Log,
  valid = (ids: string[]) => stillValid(db, ids),
  roles: Roles = (people) => rolesNow(db, people),
): AsyncDisposable & { guard: Guard } {
  /** Requests by the id of their key or sign-in, oldest first. */
  const running = new Map<string, Set<Running>>()
  const ended = new AbortController()
  let isAway = false

  /** The requests of these keys that started before `long`. Call it again after each await: requests may end meanwhile. */
  const longOf = (ids: string[], long: number): Running[] => ids.flatMap((id) => [...(running.get(id) ?? [])].filter(({ since }) => since < long))

  async function look(): Promise<void> {
    const long = performance.now() - LONG_MS
    const ids = [...running.keys()].filter((id) => longOf([id], long).length > 0)
    if (ids.length === 0) return
    const kept = await valid(ids)
    isAway = false
    const isKept = (id: string) => kept.has(id)
    for (const { end, isSignIn } of longOf(
      ids.filter((id) => !isKept(id)),
      long,
    ))
      end(isSignIn ? 'the sign-in of this request has ended' : 'the API key of this request was deleted or has expired')
    await lookAtRoles(ids.filter(isKept), long)
  }

  async function lookAtRoles(ids: string[], long: number): Promise<void> {
    const people = new Set(longOf(ids, long).flatMap(({ of }) => (of ? [of.person] : [])))
    if (people.size === 0) return
    const roleNow = await roles([...people])
    for (const { of, end } of longOf(ids, long))
      if (of && !isAtLeast(roleNow(of.person, of.project), of.role)) end('the role that this request was begun with has ended')
  }

  const run = async () => {
    for (;;) {
      await sleep(LOOK_MS, ended.signal)
      await look().catch((err: unknown) => {
        if (!isAway) log.warn({ err }, 'keys of running requests cannot be looked up; the requests go on')
        isAway = true
      })
    }
  }
  const watching = run().catch(() => {}) // ends only by its signal

  return {
    guard({ by, project }, end) {
      if (!isAccount(by)) return undefined
      const of = by.kind === 'user' ? { person: by.id, project, role: by.role } : undefined
      const one: Running = { since: performance.now(), end: (reason) => end(fault.unauthorized(reason)), isSignIn: by.via !== undefined, of }
      const { id } = by.via ?? by
      const ofKey = running.get(id) ?? new Set()
      running.set(id, ofKey.add(one))
      return {
        [Symbol.dispose]() {
          ofKey.delete(one)
          if (ofKey.size === 0 && running.get(id) === ofKey) running.delete(id)
        },
      }
    },
    async [Symbol.asyncDispose]() {
      ended.abort(new Error('the service stops'))
      await watching
    },
  }
}
