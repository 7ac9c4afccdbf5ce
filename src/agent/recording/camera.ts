// Takes pictures of the screen for all recordings: one when something has changed, none while nothing changes.
import type { Screen } from '../display/display.ts'

/** The screen at one moment. */
export interface Picture {
  /** Rows of blue, green, red and an unused byte, without gaps. */
  pixels: Buffer
  width: number
  height: number
  /** performance.now() */
  at: number
}

/** A recording that receives pictures. */
export interface Viewer {
  /** The earliest time of its next picture (performance.now()); Infinity while it cannot take one. */
  dueAt(): number
  /** Call `done` once, when the pixels are not needed any longer. */
  show(picture: Picture, done: () => void): void
}

export class Camera {
  readonly #screen: Pick<Screen, 'copy' | 'watch'>
  readonly #onError: (error: unknown) => void
  /** The viewers, and whether the screen has changed since the last picture of each. */
  readonly #viewers = new Map<Viewer, { isBehind: boolean }>()
  #free: Buffer[] = []
  #unwatch: (() => void) | undefined
  #timer: NodeJS.Timeout | undefined
  #isTaking = false

  constructor(screen: Pick<Screen, 'copy' | 'watch'>, onError: (error: unknown) => void) {
    this.#screen = screen
    this.#onError = onError
  }

  /** Shows the screen to a viewer at once, and again after each change. */
  add(viewer: Viewer): void {
    this.#viewers.set(viewer, { isBehind: true })
    this.#unwatch ??= this.#screen.watch(() => {
      for (const state of this.#viewers.values()) state.isBehind = true
      this.nudge()
    })
    this.nudge()
  }

  remove(viewer: Viewer): void {
    this.#viewers.delete(viewer)
    if (this.#viewers.size > 0) return
    this.#unwatch?.()
    this.#unwatch = undefined
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#free = []
  }

  /** Shows the screen to a viewer once more, even when it has not changed. */
  again(viewer: Viewer): void {
    const state = this.#viewers.get(viewer)
    if (state) state.isBehind = true
    this.nudge()
  }

  /** Checks whether a picture is due: something has changed, or a viewer can take one again. */
  nudge(): void {
    if (this.#isTaking) return
    const due = Math.min(...[...this.#viewers].map(([viewer, { isBehind }]) => (isBehind ? viewer.dueAt() : Infinity)))
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (due === Infinity) return
    // Timers have whole milliseconds and may fire up to one too early.
    const wait = Math.ceil(due - performance.now())
    if (wait > 0) this.#timer = setTimeout(() => this.nudge(), wait)
    else this.#take().catch(this.#onError)
  }

  async #take(): Promise<void> {
    this.#isTaking = true
    try {
      let pixels: Buffer = Buffer.alloc(0)
      const { width, height } = await this.#screen.copy(({ width: w, height: h }) => (pixels = this.#room(w * h * 4)))
      // Every change reported after this came after the picture, because reports arrive between two turns of the event loop.
      const picture = { pixels, width, height, at: performance.now() }
      let users = 1
      const done = () => {
        if (--users === 0 && this.#viewers.size > 0) this.#free.push(pixels)
      }
      for (const [viewer, state] of this.#viewers) {
        if (!state.isBehind || viewer.dueAt() > picture.at) continue
        state.isBehind = false
        users++
        viewer.show(picture, done)
      }
      done()
    } finally {
      this.#isTaking = false
    }
    this.nudge()
  }

  /** A buffer for a picture, reused: at most one per viewer and one more are in use. */
  #room(bytes: number): Buffer {
    this.#free = this.#free.filter(({ length }) => length === bytes)
    return this.#free.pop() ?? Buffer.allocUnsafeSlow(bytes)
  }
}
