// Handlers of the Replays contract.
import { known, type Handlers } from '../../http/route.ts'
import type { replays as contract } from './contract.ts'
import type { Replays } from './replays.ts'

export const replayHandlers = (replays: Replays): Handlers<typeof contract> => ({
  listReplays: ({ principal, params, origin }) => replays.list(known(principal).project, params.id, origin),
  startReplay: ({ principal, params, body, origin, signal }) => replays.start(known(principal).project, params.id, body, origin, signal),
  stopReplay: ({ principal, params }) => replays.stop(known(principal).project, params.id, params.replay_id),
  downloadReplay: ({ principal, params, headers }) => replays.download(known(principal).project, params.id, params.replay_id, headers.range),
})
