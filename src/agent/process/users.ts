// The user that a program runs as, from the caller's point of view.
import { readFileSync } from 'node:fs'
import { fault } from '../../http/fault.ts'

/** A user as a program sees it. */
export interface Identity {
  uid: number
  gid: number
  /** Undefined for a uid without a name here. */
  name: string | undefined
}

/** The largest uid (2^32 - 1 means none). */
const MAX_ID = 2 ** 32 - 2

const ROOT: Identity = { uid: 0, gid: 0, name: 'root' }

/** Undefined when no user is given. @throws 400 naming `as_user` for a user that is not in /etc/passwd, and when both are given */
export function identityOf({ as_user: user, as_root: root }: { as_user?: string | null; as_root: boolean }): Identity | undefined {
  if (user == null) return root ? ROOT : undefined
  if (root) throw fault.field('as_user', 'cannot be together with as_root')
  return parseIdentity(user, accounts(readFileSync('/etc/passwd', 'utf8')))
}

/** Parses `name`, `uid` or `uid:gid`. A uid without a gid gets the gid of its account, or else the same number. @throws 400 naming `as_user` */
export function parseIdentity(text: string, known: readonly Identity[]): Identity {
  const numbers = /^(\d{1,10})(?::(\d{1,10}))?$/.exec(text)
  if (!numbers) {
    const found = known.find(({ name }) => name === text)
    if (!found) throw fault.field('as_user', `there is no user "${text}"; a name of /etc/passwd, a uid, or uid:gid`)
    return found
  }
  const uid = Number(numbers[1])
  const account = known.find((other) => other.uid === uid)
  const gid = numbers[2] === undefined ? (account?.gid ?? uid) : Number(numbers[2])
  if (uid > MAX_ID || gid > MAX_ID) throw fault.field('as_user', `ids are not larger than ${MAX_ID}`)
  return { uid, gid, name: account?.name }
}

/** The lines of /etc/passwd. */
export function accounts(passwd: string): Identity[] {
  return passwd
    .split('\n')
    .map((line) => line.split(':'))
    .filter((fields) => fields.length >= 4)
    .map(([name, , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }))
}
