// Handlers of the Managed Auth contract.
import { known, type Handlers } from '../../../http/route.ts'
import type { Connections } from './connections.ts'
import type { authConnections as contract } from './contract.ts'
import type { HandOff } from './hand-off.ts'
import type { Logins } from './logins.ts'

interface Parts {
  connections: Connections
  logins: Logins
  handOff: Pick<HandOff, 'exchange'>
}

export const authConnectionHandlers = ({ connections, logins, handOff }: Parts): Handlers<typeof contract> => ({
  createAuthConnection: ({ principal, body, origin, signal }) => connections.create(known(principal), body, origin, signal),
  listAuthConnections: ({ principal, query, origin }) => connections.list(known(principal), query, origin),
  getAuthConnection: ({ principal, params, origin }) => connections.get(known(principal), params.id, origin),
  updateAuthConnection: ({ principal, params, body, origin, signal }) => connections.update(known(principal), params.id, body, origin, signal),
  deleteAuthConnection: ({ principal, params }) => connections.delete(known(principal).project, params.id),
  loginAuthConnection: ({ principal, params, body, origin }) => logins.begin(known(principal), params.id, body, origin),
  submitAuthConnection: ({ principal, params, body }) => logins.submit(known(principal).project, params.id, body),
  followAuthConnection: ({ principal, params, origin, signal }) => logins.follow(known(principal), params.id, origin, signal),
  listAuthConnectionTimeline: ({ principal, params, query }) => logins.timeline(known(principal).project, params.id, query),
  exchangeAuthConnectionCode: async ({ params, body }) => ({ jwt: await handOff.exchange(params.id, body.code) }),
})
