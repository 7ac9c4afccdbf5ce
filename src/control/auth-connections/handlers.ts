// Handlers of the Managed Auth contract.
import { known, type Handlers } from '../../http/route.ts'
import type { Connections } from './connections.ts'
import type { authConnections as contract } from './contract.ts'
import type { HandOff } from './hand-off.ts'

export const authConnectionHandlers = (connections: Connections, handOff: Pick<HandOff, 'exchange'>): Handlers<typeof contract> => ({
  createAuthConnection: ({ principal, body, origin, signal }) => connections.create(known(principal), body, origin, signal),
  listAuthConnections: ({ principal, query, origin }) => connections.list(known(principal).project, query, origin),
  getAuthConnection: ({ principal, params, origin }) => connections.get(known(principal).project, params.id, origin),
  updateAuthConnection: ({ principal, params, body, origin, signal }) => connections.update(known(principal), params.id, body, origin, signal),
  deleteAuthConnection: ({ principal, params }) => connections.delete(known(principal).project, params.id),
  loginAuthConnection: ({ principal, params, body, origin }) => connections.login(known(principal), params.id, body, origin),
  submitAuthConnection: ({ principal, params, body }) => connections.submit(known(principal).project, params.id, body),
  followAuthConnection: ({ principal, params, origin, signal }) => connections.follow(known(principal).project, params.id, origin, signal),
  listAuthConnectionTimeline: ({ principal, params, query }) => connections.timeline(known(principal).project, params.id, query),
  exchangeAuthConnectionCode: async ({ params, body }) => ({ jwt: await handOff.exchange(params.id, body.code) }),
})
