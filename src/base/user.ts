// The unprivileged user that Postgres and the instances run as when the service itself was started by root.
import { readFileSync } from 'node:fs'

export interface User {
  uid: number
  gid: number
}

export const isRoot = (): boolean => process.getuid?.() === 0

/** The account that script/setup makes when it runs as root. */
export const SERVICE_USER = 'cob'

/**
 * The account for children of a service that runs as root; undefined when the service is unprivileged already.
 * @throws when root has no such account: Postgres and Chromium's sandbox refuse to run as root, and so does Cob.
 */
export function serviceUser(): User | undefined {
  if (!isRoot()) return undefined
  for (const line of readFileSync('/etc/passwd', 'utf8').split('\n')) {
    const [name, , uid, gid] = line.split(':')
    if (name === SERVICE_USER) return { uid: Number(uid), gid: Number(gid) }
  }
  throw new Error(`started by root, but there is no user "${SERVICE_USER}" to run Postgres as; script/setup makes it`)
}

// Above every range that Debian, systemd and subuid assign (they end at 1,879,048,191), below 2^31.
const FIRST_INSTANCE_UID = 1_900_000_000
const INSTANCE_UIDS = 100_000_000

/**
 * The uid of one instance when the service runs as root. Each instance has its own, so that an escape from the sandbox still has no rights on
 * other instances. It is derived from the id, so nothing must be stored. A collision only removes this separation between two instances.
 */
export function instanceUser(id: string): User | undefined {
  if (!isRoot()) return undefined
  let hash = 0
  for (const char of id) hash = (hash * 31 + char.charCodeAt(0)) % INSTANCE_UIDS
  return { uid: FIRST_INSTANCE_UID + hash, gid: FIRST_INSTANCE_UID + hash }
}
