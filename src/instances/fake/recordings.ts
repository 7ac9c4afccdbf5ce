// Recordings of a fake screen: films with one grey frame per second, not really encoded, in the format of real ones.
import { fileHead, fragment, VIDEO_ID } from '../../agent/recording/fragments.ts'
import type { Recordings } from '../../agent/recording/recordings.ts'
import type { EndOfRecording } from '../../agent/recording/contract.ts'
import { DiskBuffer } from '../../agent/recording/disk-buffer.ts'
import { fault } from '../../http/fault.ts'

const PRETENDED_AVCC = Buffer.from([1, 66, 192, 30, 255, 225, 0, 0, 0])

export function pretendRecordings(dir: string): Recordings {
  interface Pretended {
    buffer: DiskBuffer
    startedAt: number
    end: { reason: EndOfRecording; durationMs: number } | undefined
    timers: NodeJS.Timeout[]
  }
  const all = new Map<string, Pretended>()
  const find = (id: string) => all.get(id) ?? raise(fault.notFound('recording', id))
  const status = ({ buffer, startedAt, end }: Pretended) => ({
    startedAt,
    startedClock: startedAt * 1000,
    durationMs: end?.durationMs ?? Date.now() - startedAt,
    bytes: buffer.length,
    ...(end && { ended: end.reason }),
  })
  const stop = (recording: Pretended, reason: EndOfRecording) => {
    if (recording.end) return
    for (const timer of recording.timers) clearTimeout(timer)
    recording.end = { reason, durationMs: Date.now() - recording.startedAt }
    recording.buffer.close()
  }
  const forget = async (id: string) => {
    const recording = all.get(id)
    all.delete(id)
    if (recording) stop(recording, 'stopped')
    await recording?.buffer[Symbol.asyncDispose]()
  }
  return {
    get isRunning() {
      return [...all.values()].some(({ end }) => end === undefined)
    },
    async start(spec) {
      const known = all.get(spec.id)
      if (known) return status(known)
      const buffer = new DiskBuffer(dir, 1024)
      const recording: Pretended = { buffer, startedAt: Date.now(), end: undefined, timers: [] }
      all.set(spec.id, recording)
      await buffer.append(fileHead({ width: 640, height: 480, avcC: PRETENDED_AVCC }, undefined))
      let sequence = 0
      const picture = () => {
        sequence++
        const sample = { data: Buffer.alloc(300, 7), at: Date.now() - recording.startedAt, duration: 50, isKey: true }
        void buffer.append(fragment(sequence, [{ id: VIDEO_ID, samples: [sample] }]))
      }
      picture()
      recording.timers.push(setInterval(picture, 50))
      if (spec.maxDurationMs !== undefined) recording.timers.push(setTimeout(() => stop(recording, 'max_duration'), spec.maxDurationMs))
      return status(recording)
    },
    status: (id) => status(find(id)),
    read: (id, from, signal) => find(id).buffer.read(from, 1024, signal),
    async stop(id) {
      stop(find(id), 'stopped')
      return status(find(id))
    },
    forget,
    async [Symbol.asyncDispose]() {
      await Promise.all([...all.keys()].map(forget))
    },
  }
}

function raise(error: Error): never {
  throw error
}
