// Limits the stored output of one run: a total number of bytes, and a rate. Each gap is reported in one line.
import { LINE_BYTES, type NewEvent } from '../apps/app-events.ts'

const MIB = 1024 * 1024
/** The burst that is stored at once, and the rate per second after it. */
const BURST_BYTES = 16 * MIB
const BYTES_PER_SECOND = MIB
/** A gap lasts until there is room for this many bytes. So at most one line per second reports a gap. */
const RESUME_BYTES = MIB

// Not base/bucket.ts: a bucket counts at once, but here lines count only when they are written.
type State = { left: number; tokens: number; at: number; gap: 'none' | 'fast' | 'full' }

export class LogBudget {
  readonly #maxBytes: number
  #state: State

  /** `used` is the output of the run that an earlier service has stored. */
  constructor(maxBytes: number, used: number, now: number) {
    this.#maxBytes = maxBytes
    this.#state = { left: maxBytes - used, tokens: BURST_BYTES, at: now, gap: 'none' }
  }

  /** Decides which of these lines are stored. Nothing counts before `commit` is called, because a batch whose write failed comes again. */
  take(lines: readonly NewEvent[], now: number): { kept: NewEvent[]; commit: () => void } {
    const next = { ...this.#state, at: now }
    next.tokens = Math.min(BURST_BYTES, this.#state.tokens + (Math.max(0, now - this.#state.at) / 1000) * BYTES_PER_SECOND)
    const kept: NewEvent[] = []
    for (const event of lines) {
      const bytes = LINE_BYTES + (event.kind === 'log' ? Buffer.byteLength(event.line) : 0)
      if (next.gap === 'fast' && next.tokens >= RESUME_BYTES) next.gap = 'none'
      if (next.gap !== 'none') continue
      if (next.left >= bytes && next.tokens >= bytes) {
        next.left -= bytes
        next.tokens -= bytes
        kept.push(event)
      } else {
        next.gap = next.left < bytes ? 'full' : 'fast'
        kept.push({ ...event, kind: 'log', line: next.gap === 'full' ? this.#full() : TOO_FAST } as NewEvent)
      }
    }
    return { kept, commit: () => void (this.#state = next) }
  }

  #full(): string {
    return `[cob] This run has printed ${this.#maxBytes / MIB} MiB (COB_RUN_LOG_MB). Further output is not kept.`
  }
}

const TOO_FAST = `[cob] This run prints faster than ${BYTES_PER_SECOND / MIB} MiB a second. Lines are missing here.`
