// Handlers of the Replays contract.
import type { Handlers } from '../../http/route.ts'
import type { replays as contract } from './contract.ts'
import type { Replays } from './replays.ts'

export const replayHandlers = (replays: Replays): Handlers<typeof contract> => ({
  listReplays: ({ params, origin }) => replays.list(params.id, origin),
  startReplay: ({ params, body, origin, signal }) => replays.start(params.id, body, origin, signal),
  stopReplay: ({ params }) => replays.stop(params.id, params.replay_id),
  downloadReplay: ({ params, headers }) => replays.download(params.id, params.replay_id, headers.range),
})
