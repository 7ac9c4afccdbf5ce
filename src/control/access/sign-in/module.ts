// Signing in to the dashboard: with a key, or by an identity provider.
import { makeSealer } from '../../../base/sealed.ts'
import { defineModule } from '../../module.ts'
import { dashboard } from '../../service/dashboard/module.ts'
import { apiKeys } from '../api-keys/module.ts'
import { keyOf } from '../keys.ts'
import { admit } from '../members/admit.ts'
import { describe } from '../members/describe.ts'
import { findPerson } from '../members/person.ts'
import { signIn as contract } from './contract.ts'
import { signInHandlers } from './handlers.ts'
import { makeOidcClient } from './oidc.ts'
import { endedWebSessions } from './purge.ts'
import { SignIn } from './sign-in.ts'
import { makeWebSessions, type WebSessions } from './web-sessions.ts'

export const signIn = defineModule<WebSessions>({
  name: 'sign-in',
  contracts: [contract],
  purges: ({ db }) => [endedWebSessions(db)],
  open(house) {
    const { db, keys, config } = house
    const { rights, checkKey } = house.of(apiKeys)
    const sessions = makeWebSessions({ db, rights, hours: config.signInHours, keyOf: (id) => keyOf(db, id), personOf: (id) => findPerson(db, id) })
    const { oidc } = config
    const byProvider = oidc && {
      settings: oidc,
      client: makeOidcClient(oidc),
      sealer: makeSealer(keys, 'sign-in'),
      pages: house.of(dashboard),
      async admit(identity: Parameters<typeof admit>[2]) {
        try {
          return await admit(db, oidc, identity)
        } finally {
          await rights.taken()
        }
      },
    }
    house.mount(
      contract,
      signInHandlers(new SignIn({ sessions, checkKey, oidc: byProvider }), (by) => describe(db, by)),
    )
    return sessions
  },
})
