// Sign-ins: whose rights a cookie has. Puts together what the parts need of each other.
import type { Config } from '../../base/config.ts'
import type { Keys } from '../../base/keys.ts'
import { makeSealer } from '../../base/sealed.ts'
import type { Db } from '../../store/db.ts'
import { isAccessToken, makeGrants } from './oauth/grants.ts'
import type { OAuthParts } from './oauth/mount.ts'
import { makeOAuthServer } from './oauth/server.ts'
import { ORGANIZATION } from './account/contract.ts'
import { keyOf, type CheckKey } from './keys.ts'
import { admit } from './members/admit.ts'
import { describe } from './members/describe.ts'
import { findPerson } from './members/person.ts'
import type { Rights } from './rights.ts'
import { limitTries, type SignInSettings } from './sign-in/handlers.ts'
import { makeOidcClient } from './sign-in/oidc.ts'
import { makeWebSessions, type SignIns } from './sign-in/web-sessions.ts'

interface SignInsSettings {
  db: Db
  config: Pick<Config, 'signInHours' | 'oidc'>
  keys: Keys
  checkKey: CheckKey
  rights: Rights
}

export interface OpenSignIns {
  /** For the principal of a request. */
  signIns: SignIns
  /** For the routes. */
  handling: SignInSettings
  oauth: OAuthParts
}

export function openSignIns({ db, config, keys, checkKey, rights }: SignInsSettings): OpenSignIns {
  const sessions = makeWebSessions({ db, rights, hours: config.signInHours, keyOf: (id) => keyOf(db, id), personOf: (id) => findPerson(db, id) })
  const { oidc } = config
  const grants = makeGrants({ db, rights, keyOf: (id) => keyOf(db, id), personOf: (id) => findPerson(db, id) })
  return {
    signIns: { ofCookie: (token) => sessions.check(token), isToken: isAccessToken, ofToken: (token) => grants.check(token) },
    oauth: { db, grants, server: makeOAuthServer(db, grants, ORGANIZATION), limitTries },
    handling: {
      sessions,
      checkKey,
      oidc: oidc && {
        settings: oidc,
        client: makeOidcClient(oidc),
        sealer: makeSealer(keys, 'sign-in'),
        admit: (identity) => admit(db, oidc, identity).finally(() => rights.taken()),
      },
      describe: (by) => describe(db, by),
    },
  }
}
