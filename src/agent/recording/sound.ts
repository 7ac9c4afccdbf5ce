// The sound of a session, as AAC frames with the times at which they were played.
import { spawn } from 'node:child_process'
import { endProcessGroup } from '../../base/processes.ts'
import { within } from '../../base/wait.ts'
import { FlvReader, type Packet } from './flv.ts'
import type { AudioTrack, Sample } from './fragments.ts'
import { SINK } from './speakers.ts'

const RATE = 48_000
/** Samples per AAC frame. */
const PIECE = 1024
/** Delay from playing to the encoder's output: one frame that is filled, and one of look-ahead. */
const DELAY_MS = (2 * PIECE * 1000) / RATE
/** Times are counted in frames, because their arrivals jitter. A larger difference than this means that some were lost. */
const MAX_DRIFT_MS = 200
const START_MS = 10_000

export interface Sound {
  readonly track: AudioTrack
  /** The samples since the last call, with times relative to `started` (performance.now()). */
  take(started: number): Sample[]
  close(): Promise<void>
}

/** Records the output of a sound server. Resolves when sound arrives. */
export async function openSound(server: string): Promise<Sound> {
  const input = ['-f', 'pulse', '-server', server, '-sample_rate', `${RATE}`, '-channels', '2', '-fragment_size', '4096', '-i', `${SINK}.monitor`]
  const output = ['-c:a', 'aac', '-b:a', '128k', '-f', 'flv', '-flvflags', 'no_duration_filesize+no_metadata', '-flush_packets', '1', 'pipe:1']
  const child = spawn(
    'ffmpeg',
    ['-nostdin', '-hide_banner', '-loglevel', 'error', '-nostats', '-probesize', '32', '-analyzeduration', '0', ...input, ...output],
    { detached: true, stdio: ['ignore', 'pipe', 'pipe'] },
  )
  const began = Promise.withResolvers<Buffer>()
  let config: Buffer | undefined
  let pieces: { data: Buffer; at: number }[] = []
  let next: number | undefined
  const onPacket = (packet: Packet) => {
    if (packet.kind === 'description') config = Buffer.from(packet.data)
    else {
      const receivedAt = performance.now() - DELAY_MS
      if (next === undefined || receivedAt - next > MAX_DRIFT_MS) next = receivedAt
      pieces.push({ data: packet.data, at: next })
      next += (PIECE * 1000) / RATE
      if (config) began.resolve(config)
    }
  }
  const reader = new FlvReader()
  child.stdout.on('data', (chunk: Buffer) => reader.push(chunk).forEach(onPacket))
  let words = ''
  child.stderr.on('data', (chunk: Buffer) => void (words = (words + chunk.toString()).slice(-2000)))
  const ended = new Promise<void>((resolve) => {
    child.on('error', (error) => (began.reject(error), resolve()))
    child.on('close', () => (began.reject(new Error(`ffmpeg ended: ${words}`)), resolve()))
  })
  const close = () => endProcessGroup('ffmpeg', child, ended)
  try {
    const track = { rate: RATE, channels: 2, config: await within('sound', START_MS, began.promise) }
    let last = -1
    return {
      track,
      take(started) {
        const taken = pieces
        pieces = []
        return taken.flatMap(({ data, at }) => {
          const time = Math.max(Math.round(((at - started) * RATE) / 1000), last < 0 ? -Infinity : last + PIECE)
          if (time < 0) return []
          // A frame in sequence starts exactly where the previous one ended.
          last = last >= 0 && time - last <= PIECE + 2 ? last + PIECE : time
          return [{ data, at: last, duration: PIECE, isKey: true }]
        })
      },
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}
