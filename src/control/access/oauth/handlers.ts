// Handlers of the OAuth contract: the calls of the consent page.
import { known, type Handlers } from '../../../http/route.ts'
import type { oauth as contract } from './contract.ts'
import type { Consent } from './oauth.ts'

export const oauthHandlers = (consent: Consent): Handlers<typeof contract> => ({
  getAuthorizationRequest: ({ query, address, origin }) => consent.show(query, address, origin),
  answerAuthorizationRequest: ({ principal, body, origin }) => consent.answer(known(principal), body, origin),
  listAllowedPrograms: ({ principal, query }) => consent.list(known(principal), query),
  endAllowedProgram: ({ principal, params }) => consent.end(known(principal), params.id),
})
