// Captures the output of one `exec` program up to a limit; the rest is counted and dropped, so that the program continues.
import type { ExecReply, Stream } from './contract.ts'

/** Bytes kept of each stream: the first ones. */
export const CAPTURED_BYTES = 8 * 1024 * 1024
/** Bytes kept for all calls of a session together. */
export const CAPTURED_IN_ALL_BYTES = 32 * 1024 * 1024

/** The last bytes of each stream that an error shows. */
const TAIL_BYTES = 4 * 1024

/** The total of all captures of a session. */
export interface Captured {
  bytes: number
}

/** Memory grows in blocks, each twice as large as the previous: most programs print little, and a few print much. */
const FIRST_BLOCK = 4 * 1024
const LARGEST_BLOCK = 1024 * 1024

interface Kept {
  /** All but the last are full. */
  blocks: Buffer[]
  /** Bytes in the last block. */
  filled: number
  bytes: number
  missed: number
}

const none = (): Kept => ({ blocks: [], filled: 0, bytes: 0, missed: 0 })

export class Capture {
  readonly #all: Captured
  readonly #limit: number
  readonly #streams: Record<Stream, Kept> = { stdout: none(), stderr: none() }
  #open = true

  constructor(all: Captured, limit = CAPTURED_BYTES) {
    this.#all = all
    this.#limit = limit
  }

  add(stream: Stream, data: Buffer): void {
    if (!this.#open) return
    const kept = this.#streams[stream]
    const room = Math.max(0, Math.min(this.#limit - kept.bytes, CAPTURED_IN_ALL_BYTES - this.#all.bytes))
    const taken = data.subarray(0, room)
    kept.missed += data.length - taken.length
    kept.bytes += taken.length
    this.#all.bytes += taken.length
    for (let at = 0; at < taken.length;) {
      let last = kept.blocks.at(-1)
      if (!last || kept.filled === last.length) {
        last = Buffer.allocUnsafeSlow(last ? Math.min(last.length * 2, LARGEST_BLOCK) : FIRST_BLOCK)
        kept.blocks.push(last)
        kept.filled = 0
      }
      const copied = taken.copy(last, kept.filled, at)
      kept.filled += copied
      at += copied
    }
  }

  /** The captured part of the answer. Missing bytes are counted in separate fields and, for clients that do not know these, in a last line of stderr. */
  reply(): Pick<ExecReply, 'stdout_b64' | 'stderr_b64' | 'stdout_missed_bytes' | 'stderr_missed_bytes'> {
    const { stdout, stderr } = this.#streams
    const notes = (['stdout', 'stderr'] as const).filter((stream) => this.#streams[stream].missed > 0).map((stream) => Buffer.from(this.#note(stream)))
    return {
      stdout_b64: Buffer.concat(stdout.blocks, stdout.bytes).toString('base64'),
      stderr_b64: Buffer.concat([Buffer.concat(stderr.blocks, stderr.bytes), ...notes]).toString('base64'),
      ...(stdout.missed > 0 && { stdout_missed_bytes: stdout.missed }),
      ...(stderr.missed > 0 && { stderr_missed_bytes: stderr.missed }),
    }
  }

  /** One sentence for an error. */
  summary(): string {
    const { stdout, stderr } = this.#streams
    return `It had printed ${stdout.bytes + stdout.missed} bytes to stdout and ${stderr.bytes + stderr.missed} to stderr.`
  }

  /** The end of each captured stream as text, for the details of an error. Undefined when nothing was printed. */
  tails(): { code: string; message: string }[] | undefined {
    const tails = (['stdout', 'stderr'] as const)
      .filter((stream) => this.#streams[stream].bytes > 0)
      .map((stream) => ({ code: stream, message: Buffer.concat(this.#streams[stream].blocks, this.#streams[stream].bytes).subarray(-TAIL_BYTES).toString() }))
    return tails.length > 0 ? tails : undefined
  }

  /** Frees its share of the limit. */
  [Symbol.dispose](): void {
    this.#open = false
    for (const kept of Object.values(this.#streams)) {
      this.#all.bytes -= kept.bytes
      kept.blocks = []
    }
  }

  #note(stream: Stream): string {
    const { bytes, missed } = this.#streams[stream]
    return `\n[${stream} was cut after ${bytes} bytes; ${missed} more were dropped]\n`
  }
}
