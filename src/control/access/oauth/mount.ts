// The authorization server: what it is made of, and all of its routes.
import { mount, type MountContext } from '../../../http/mount.ts'
import type { Db } from '../../../store/db.ts'
import { serveConsentPage } from './consent-page.ts'
import { oauth } from './contract.ts'
import { mountOAuthEndpoints, TRIES } from './endpoints.ts'
import type { Grants } from './grants.ts'
import { oauthHandlers } from './handlers.ts'
import type { OAuthServer } from './server.ts'

export interface OAuthParts {
  db: Db
  server: OAuthServer
  grants: Grants
  /** Counts tries by address: how many within a minute, and what they are. */
  limitTries: (perMinute: number, what: string) => (address: string) => void
}

export function mountOAuth(context: MountContext, { db, server, grants, limitTries }: OAuthParts): void {
  const countToken = limitTries(TRIES.token, 'requests')
  mount(context, oauth, oauthHandlers({ db, server, grants, countTry: countToken }))
  mountOAuthEndpoints(context, { db, server, grants, countToken, countRegistration: limitTries(TRIES.register, 'registrations') })
  serveConsentPage(context)
}
