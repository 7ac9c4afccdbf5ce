// The recordings of an agent by id; all share one camera.
import type { Readable } from 'node:stream'
import type { Log } from '../../base/log.ts'
import { within } from '../../base/wait.ts'
import { fault } from '../../http/fault.ts'
import type { Screen } from '../display/display.ts'
import { Camera } from './camera.ts'
import { BYTES_AT_ONCE, type RecordingSpec, type RecordingStatus } from './contract.ts'
import { Recording, type RecordingHooks } from './recording.ts'
import { openSound, type Sound } from './sound.ts'
import type { Speakers } from './speakers.ts'

/** Most recordings at the same time; each has an encoder of about 100 MB. */
const MAX_AT_ONCE = 8
/** An encoder starts in 150 ms on an idle machine. */
const BEGIN_MS = 15_000

export interface Recordings extends AsyncDisposable {
  /** Whether one runs, or is being started. */
  readonly isRunning: boolean
  start(spec: RecordingSpec): Promise<RecordingStatus>
  status(id: string): RecordingStatus
  read(id: string, from: number, signal: AbortSignal): Promise<Readable>
  stop(id: string): Promise<RecordingStatus>
  forget(id: string): Promise<void>
}

/** `dir` contains the data that has not been fetched yet. */
export function openRecordings(
  screen: Screen,
  speakers: Pick<Speakers, 'server'>,
  dir: string,
  log: Log,
  hooks: RecordingHooks,
  soundOf = openSound,
): Recordings {
  const all = new Map<string, Recording>()
  /** Recordings that wait for their sound. A recording that is dropped meanwhile never starts. */
  const starting = new Map<string, { made: Promise<Recording>; isDropped: boolean }>()
  const camera = new Camera(screen, (err) => log.error({ err }, 'a picture for a recording could not be taken'))
  const listen = async (): Promise<Sound> => {
    try {
      return await soundOf(await speakers.server())
    } catch (error) {
      throw fault.unavailable('the sound of this browser cannot be recorded', error)
    }
  }
  const find = (id: string): Recording => {
    const found = all.get(id)
    if (!found) throw fault.notFound('recording', id)
    return found
  }
  const running = () => [...all.values()].filter(({ status }) => status.ended === undefined).length + starting.size
  const begin = (spec: RecordingSpec): Promise<Recording> => {
    const known = starting.get(spec.id)
    if (known) return known.made
    if (running() >= MAX_AT_ONCE) throw fault.conflict(`there are ${MAX_AT_ONCE} recordings of this browser already; stop one first`)
    const make = async (): Promise<Recording> => {
      const sound = spec.audio ? await listen() : undefined
      if (entry.isDropped) {
        await sound?.close()
        throw fault.unavailable('the recording was dropped before it began')
      }
      const recording = new Recording(camera, spec, dir, sound, log, hooks)
      all.set(spec.id, recording)
      return recording
    }
    const entry = {
      isDropped: false,
      made: Promise.resolve()
        .then(make)
        .finally(() => starting.delete(spec.id)),
    }
    starting.set(spec.id, entry)
    return entry.made
  }
  const drop = async (id: string) => {
    const begun = starting.get(id)
    if (begun) begun.isDropped = true
    const found = all.get(id)
    all.delete(id)
    await found?.[Symbol.asyncDispose]()
  }
  return {
    get isRunning() {
      return running() > 0
    },
    async start(spec) {
      const recording = all.get(spec.id) ?? (await begin(spec))
      try {
        await within('the first picture of a recording', BEGIN_MS, recording.begun)
      } catch (error) {
        await drop(spec.id)
        throw fault.unavailable('the recording could not be started', error)
      }
      return recording.status
    },
    status: (id) => find(id).status,
    read: (id, from, signal) => find(id).buffer.read(from, BYTES_AT_ONCE, signal),
    async stop(id) {
      const recording = find(id)
      await recording.stop('stopped')
      return recording.status
    },
    forget: drop,
    async [Symbol.asyncDispose]() {
      await Promise.all([...starting.keys(), ...all.keys()].map(drop))
    },
  }
}
