// Sign-ins: whose rights a cookie has. Puts together what the parts need of each other.
import type { Config } from '../base/config.ts'
import type { Db } from '../store/db.ts'
import { keyOf, type CheckKey } from './org/keys.ts'
import { describe } from './org/members/describe.ts'
import { findPerson } from './org/members/person.ts'
import type { SignInSettings } from './sign-in/handlers.ts'
import { makeWebSessions, type SignIns } from './sign-in/web-sessions.ts'

interface SignInsSettings {
  db: Db
  config: Pick<Config, 'signInHours'>
  checkKey: CheckKey
}

export interface OpenSignIns {
  /** For the principal of a request. */
  signIns: SignIns
  /** For the routes. */
  handling: SignInSettings
}

export function openSignIns({ db, config, checkKey }: SignInsSettings): OpenSignIns {
  const sessions = makeWebSessions({ db, hours: config.signInHours, keyOf: (id) => keyOf(db, id), personOf: (id) => findPerson(db, id) })
  return {
    signIns: { ofCookie: (token) => sessions.check(token) },
    handling: { sessions, checkKey, providers: [], describe: (by) => describe(db, by) },
  }
}
