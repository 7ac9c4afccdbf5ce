// The recording contract, answered by the recordings of the agent.
import type { Handlers } from '../../http/route.ts'
import type { recording } from './contract.ts'
import type { Recordings } from './recordings.ts'

export const recordingHandlers = (recordings: Recordings): Handlers<typeof recording> => ({
  startRecording: ({ body }) => recordings.start(body),
  recordingStatus: ({ params }) => recordings.status(params.id),
  readRecording: ({ params, query, signal }) => recordings.read(params.id, query.from, signal),
  stopRecording: ({ params }) => recordings.stop(params.id),
  forgetRecording: ({ params }) => recordings.forget(params.id),
})
