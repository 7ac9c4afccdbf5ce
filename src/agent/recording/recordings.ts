// The recordings of an agent by id; all share one camera.
import type { Readable } from 'node:stream'
import type { Log } from '../../base/log.ts'
import { within } from '../../base/wait.ts'
import { fault } from '../../http/fault.ts'
import type { Screen } from '../display/screen.ts'
import { Camera } from './camera.ts'
import { BYTES_AT_ONCE, type RecordingSpec, type RecordingStatus } from './contract.ts'
import { Recording } from './recording.ts'
import { openSound, type Sound } from './sound.ts'
import type { Speakers } from './speakers.ts'

/** Most recordings at the same time; each has an encoder of about 100 MB. */
const MAX_AT_ONCE = 8
/** An encoder starts in 150 ms on an idle machine. */
const BEGIN_MS = 15_000

export interface Recordings extends AsyncDisposable {
  start(spec: RecordingSpec): Promise<RecordingStatus>
  status(id: string): RecordingStatus
  read(id: string, from: number, signal: AbortSignal): Promise<Readable>
  stop(id: string): Promise<RecordingStatus>
  forget(id: string): Promise<void>
}

/** `dir` holds the data that has not been fetched yet. */
export function openRecordings(screen: Screen, speakers: Pick<Speakers, 'server'>, dir: string, log: Log): Recordings {
  const all = new Map<string, Recording>()
  const camera = new Camera(screen, (err) => log.error({ err }, 'a picture for a recording could not be taken'))
  const listen = async (): Promise<Sound> => {
    try {
      return await openSound(await speakers.server())
    } catch (error) {
      throw fault.unavailable('the sound of this browser cannot be recorded', error)
    }
  }
  const find = (id: string): Recording => {
    const found = all.get(id)
    if (!found) throw fault.notFound('recording', id)
    return found
  }
  const drop = async (id: string) => {
    const found = all.get(id)
    all.delete(id)
    await found?.[Symbol.asyncDispose]()
  }
  return {
    async start(spec) {
      let recording = all.get(spec.id)
      if (!recording) {
        const running = [...all.values()].filter(({ status }) => status.ended === undefined)
        if (running.length >= MAX_AT_ONCE) throw fault.conflict(`there are ${MAX_AT_ONCE} recordings of this browser already; stop one first`)
        const sound = spec.audio ? await listen() : undefined
        recording = new Recording(camera, spec, dir, sound, log)
        all.set(spec.id, recording)
      }
      try {
        await within('the first picture of a recording', BEGIN_MS, recording.begun)
      } catch (error) {
        await drop(spec.id)
        throw fault.unavailable('the recording could not be started', error)
      }
      return recording.status
    },
    status: (id) => find(id).status,
    read: (id, from, signal) => find(id).spool.read(from, BYTES_AT_ONCE, signal),
    async stop(id) {
      const recording = find(id)
      await recording.stop('stopped')
      return recording.status
    },
    forget: drop,
    async [Symbol.asyncDispose]() {
      await Promise.all([...all.keys()].map(drop))
    },
  }
}
