// Handlers of the Replays contract.
import { known, sessionOf, type Called, type Handlers, type Principal } from '../../http/route.ts'
import type { replays as contract } from './contract.ts'
import type { Replays } from './replays.ts'

const at = (principal: Principal | undefined, idOrName: string): [project: string, session: Called] => {
  const by = known(principal)
  return [by.project, sessionOf(by, idOrName)]
}

export const replayHandlers = (replays: Replays): Handlers<typeof contract> => ({
  listReplays: ({ principal, params, origin }) => replays.list(...at(principal, params.id), origin),
  startReplay: ({ principal, params, body, origin, signal }) => replays.start(...at(principal, params.id), body, origin, signal),
  stopReplay: ({ principal, params }) => replays.stop(...at(principal, params.id), params.replay_id),
  downloadReplay: ({ principal, params, headers }) => replays.download(...at(principal, params.id), params.replay_id, headers.range),
})
