// The agent's recordings, for the control plane only: start, status, read while it grows, stop, delete.
import * as z from 'zod'
import { bytes, json, none, route } from '../../http/route.ts'

/** For a higher rate the original requires a GPU; there is none here. */
export const MAX_FRAMERATE = 20

const id = z.string().regex(/^[a-z][a-z0-9]{23}$/)
const params = z.strictObject({ id })
const group = 'Agent'

/** The reason of a recording's end. A caller that cannot reach the agent sets `agent_lost`. */
export const EndOfRecording = z.enum(['stopped', 'max_duration', 'disk_full', 'too_large', 'encoder_failed'])
export type EndOfRecording = z.infer<typeof EndOfRecording>

export const RecordingSpec = z.strictObject({
  id,
  framerate: z.int().min(1).max(MAX_FRAMERATE),
  maxDurationMs: z.number().positive().optional(),
  audio: z.boolean(),
})
export type RecordingSpec = z.infer<typeof RecordingSpec>

export const RecordingStatus = z.object({
  /** When its first picture was taken, in milliseconds since 1970. */
  startedAt: z.int().min(0),
  /** The same moment on the clock of the session's telemetry, in microseconds since 1970. */
  startedClock: z.int().min(0),
  durationMs: z.int().min(0),
  /** Bytes so far; all of them once it has ended. */
  bytes: z.int().min(0),
  ended: EndOfRecording.optional(),
})
export type RecordingStatus = z.infer<typeof RecordingStatus>

/** Most bytes in one answer, so that the reader acknowledges them before it gets more. */
export const BYTES_AT_ONCE = 16 * 1024 * 1024

export const recording = {
  startRecording: route({
    method: 'POST',
    path: '/recordings',
    id: 'startRecording',
    group,
    summary: 'Start recording the screen; a repeated id returns the same recording',
    body: RecordingSpec,
    reply: json(RecordingStatus),
    faults: ['conflict', 'unavailable'],
  }),
  recordingStatus: route({
    method: 'GET',
    path: '/recordings/{id}',
    id: 'recordingStatus',
    group,
    summary: 'Get the state of a recording',
    params,
    reply: json(RecordingStatus),
    faults: ['not_found'],
  }),
  readRecording: route({
    method: 'GET',
    path: '/recordings/{id}/bytes',
    id: 'readRecording',
    group,
    summary: 'Stream the bytes of a recording from an offset; the agent drops the bytes before it',
    params,
    query: z.strictObject({ from: z.coerce.number().int().min(0) }),
    deadlineMs: 2_147_483_647,
    reply: bytes('application/octet-stream'),
    faults: ['not_found', 'conflict'],
  }),
  stopRecording: route({
    method: 'POST',
    path: '/recordings/{id}/stop',
    id: 'stopRecording',
    group,
    summary: 'Stop a recording',
    params,
    reply: json(RecordingStatus),
    faults: ['not_found'],
  }),
  forgetRecording: route({
    method: 'DELETE',
    path: '/recordings/{id}',
    id: 'forgetRecording',
    group,
    summary: 'Stop a recording and delete its remaining bytes',
    params,
    reply: none(),
  }),
}
