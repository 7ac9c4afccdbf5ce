// What is kept of what one run prints: a number of bytes in all, and no faster than a rate. Each gap is told in one line.
import { LINE_BYTES, type NewEvent } from '../../store/events.ts'

const MIB = 1024 * 1024
/** Printed at once, a run may have this much kept; then this much a second. */
const BURST_BYTES = 16 * MIB
const BYTES_PER_SECOND = MIB
/** A gap lasts until there is room for this much, so that there is one line for each second of it at most. */
const RESUME_BYTES = MIB

type State = { left: number; tokens: number; at: number; gap: 'none' | 'fast' | 'full' }

export class LogBudget {
  readonly #maxBytes: number
  #state: State

  /** `used` is what a former service has kept of the run. */
  constructor(maxBytes: number, used: number, now: number) {
    this.#maxBytes = maxBytes
    this.#state = { left: maxBytes - used, tokens: BURST_BYTES, at: now, gap: 'none' }
  }

  /** Which of these lines are kept. Nothing counts before `commit` is called: a write that failed comes again. */
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
    return `[cob] This run has printed ${this.#maxBytes / MIB} MiB (COB_RUN_LOG_MB). More of what it prints is not kept.`
  }
}

const TOO_FAST = `[cob] This run prints faster than ${BYTES_PER_SECOND / MIB} MiB a second. Lines are missing here.`
