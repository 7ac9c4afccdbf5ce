// Handlers of the Replays contract.
import { isAccount, known, sessionOf, type Called, type Handlers, type Principal } from '../../../http/route.ts'
import { fault } from '../../../http/fault.ts'
import type { EventsShown } from '../telemetry/shown/contract.ts'
import type { replays as contract } from './contract.ts'
import type { Replays } from './replays.ts'

const at = (principal: Principal | undefined, idOrName: string): [project: string, session: Called] => {
  const by = known(principal)
  return [by.project, sessionOf(by, idOrName)]
}

/**
 * How much of its events a link shows. Everything only for who comes with a key: the token in a session's addresses reaches the stream of its events, and
 * ends with the session; the link stays. @throws 403
 */
function allowed(principal: Principal | undefined, { events }: { events?: EventsShown | undefined }): EventsShown | undefined {
  if (events === 'full' && !isAccount(known(principal).by)) throw fault.forbidden('a link that shows all of the events needs an API key')
  return events
}

export const replayHandlers = (replays: Replays): Handlers<typeof contract> => ({
  listReplays: ({ principal, params, query, origin }) => replays.list(...at(principal, params.id), origin, allowed(principal, query)),
  startReplay: ({ principal, params, query, body, origin, signal }) =>
    replays.start(...at(principal, params.id), body, origin, signal, allowed(principal, query)),
  stopReplay: ({ principal, params }) => replays.stop(...at(principal, params.id), params.replay_id),
  downloadReplay: ({ principal, params, headers }) => replays.download(...at(principal, params.id), params.replay_id, headers.range),
})
