// The authorization server: lets programs act for people who allow it.
import type { MountContext } from '../../../http/mount.ts'
import { defineModule } from '../../module.ts'
import { dashboard } from '../../service/dashboard/module.ts'
import { HTML, pageHeaders, type Pages } from '../../service/dashboard/pages.ts'
import { ORGANIZATION } from '../account/contract.ts'
import { apiKeys } from '../api-keys/module.ts'
import { keyOf } from '../keys.ts'
import { findPerson } from '../members/person.ts'
import { limitTries } from '../sign-in/sign-in.ts'
import { oauth as contract } from './contract.ts'
import { mountOAuthEndpoints, TRIES } from './endpoints.ts'
import { Grants } from './grants.ts'
import { oauthHandlers } from './handlers.ts'
import { Consent } from './oauth.ts'
import { endedGrants } from './purge.ts'
import { makeOAuthServer } from './server.ts'

export const oauth = defineModule<Grants>({
  name: 'oauth',
  contracts: [contract],
  purges: ({ db }) => [endedGrants(db)],
  open(house) {
    const { db } = house
    const grants = new Grants({ db, rights: house.of(apiKeys).rights, keyOf: (id) => keyOf(db, id), personOf: (id) => findPerson(db, id) })
    const server = makeOAuthServer(db, grants, ORGANIZATION)
    const countToken = limitTries(TRIES.token, 'requests')
    house.mount(contract, oauthHandlers(new Consent({ db, server, grants, countTry: countToken })))
    house.serve((context) => {
      mountOAuthEndpoints(context, { db, server, grants, countToken, countRegistration: limitTries(TRIES.register, 'registrations') })
      servePage(context, house.of(dashboard))
    })
    return grants
  },
})

/** The consent page. It is the same for every request; its script asks the service for everything else. */
function servePage({ app, paths }: MountContext, pages: Pages): void {
  paths.set('/authorize', (paths.get('/authorize') ?? new Set()).add('GET'))
  app.get('/authorize', { config: { id: 'consentPage' } }, async (_request, reply) =>
    reply
      .headers({ ...pageHeaders('none'), 'cross-origin-opener-policy': 'same-origin' })
      .type(HTML)
      .send(await pages.render('consent')),
  )
}
