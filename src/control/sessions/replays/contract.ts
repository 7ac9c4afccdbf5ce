// The contract of the Replays group: videos of a session's screen.
import * as z from 'zod'
import { MAX_FRAMERATE } from '../../../agent/recording/contract.ts'
import { EventsShown } from '../telemetry/shown/contract.ts'
import { MAX_INTEGER, PARTIAL, bytes, json, none, route } from '../../../http/route.ts'

const group = 'Browser Replays'
const Time = z.iso.datetime()

/** The same limit as the original service's. */
const DEFAULT_FRAMERATE = 10

export const StartReplay = z.strictObject({
  /** Most frames per second. An unchanged screen makes no new frames. */
  framerate: z
    .int()
    .min(1)
    .max(MAX_FRAMERATE, { error: `must be at most ${MAX_FRAMERATE}; more needs a GPU, and GPU browsers are not built yet in this version of Cob` })
    .default(DEFAULT_FRAMERATE),
  max_duration_in_seconds: z.int().min(1).max(MAX_INTEGER).optional(),
  record_audio: z.boolean().default(false),
})
export type StartReplay = z.output<typeof StartReplay>

export const Replay = z.object({
  replay_id: z.string(),
  started_at: Time,
  /** Null while it is being recorded. */
  finished_at: Time.nullable(),
  replay_view_url: z.string(),
})
export type Replay = z.output<typeof Replay>

/** Ours: how much of the session's telemetry the link in the answer shows beside the video; "brief" unless it is given. */
const linkQuery = z.strictObject({ events: EventsShown.optional() })
const ofBrowser = z.strictObject({ id: z.string().min(1) })
const ofReplay = z.strictObject({ id: z.string().min(1), replay_id: z.string().min(1) })

export const replays = {
  listReplays: route({
    method: 'GET',
    path: '/browsers/{id}/replays',
    id: 'listReplays',
    group,
    summary: 'List the replays of a browser session, oldest first; the session may have ended',
    access: 'session',
    params: ofBrowser,
    query: linkQuery,
    reply: json(z.array(Replay)),
    faults: ['forbidden', 'not_found'],
  }),
  startReplay: route({
    method: 'POST',
    path: '/browsers/{id}/replays',
    id: 'startReplay',
    group,
    needsRoom: true,
    summary: 'Start recording a browser session',
    access: 'session',
    params: ofBrowser,
    query: linkQuery,
    body: StartReplay,
    bodyOptional: true,
    reply: json(Replay, 201),
    faults: ['forbidden', 'not_found', 'conflict', 'unavailable'],
  }),
  stopReplay: route({
    method: 'POST',
    path: '/browsers/{id}/replays/{replay_id}/stop',
    id: 'stopReplay',
    group,
    summary: 'Stop recording; the response usually comes when the video is ready to download',
    access: 'session',
    params: ofReplay,
    reply: none(200),
    faults: ['not_found'],
  }),
  downloadReplay: route({
    method: 'GET',
    path: '/browsers/{id}/replays/{replay_id}',
    id: 'downloadReplay',
    group,
    summary: 'Download a replay as MP4, or a range of its bytes; 202 with Retry-After while it is not ready',
    access: 'session',
    params: ofReplay,
    // No limit: a video of gigabytes takes as long as its reader needs.
    deadlineMs: Infinity,
    reply: bytes('video/mp4', {
      others: {
        202: { description: 'It is not ready yet; Retry-After says when to ask again.', hasBody: false },
        ...PARTIAL,
      },
    }),
    faults: ['not_found'],
  }),
}
