// A display that can be exchanged for another one while tools use it: they keep the parts that they were given.
import type { Controls, Display, Picture, Screen } from './display.ts'

export interface Exchangeable extends Display {
  /**
   * Puts `next` in the place of the present display, with the same viewport and cursor. Returns the former one, which stays open: the caller closes it.
   * @throws when `next` cannot take the viewport, or its controls do not open; then nothing has changed
   */
  exchange(next: Display): Promise<Display>
}

/** Versions of an exchanged screen begin above this number times the count of its exchanges, so that none is equal to one of an earlier screen. */
const VERSIONS = 2 ** 40

export function exchangeable(first: Display): Exchangeable {
  let now = first
  let controls: Promise<Controls> | undefined
  let exchanges = 0
  const { promise: ended, resolve: onEnd } = Promise.withResolvers<void>()
  const resized: (() => Promise<void>)[] = []
  /** Those who watch the screen, and how to end that at the present one. */
  const watching = new Map<() => void, () => void>()

  const opened = () => (controls ??= now.openControls())
  const parts = async () => {
    let present = await opened()
    onExchange = (next) => (present = next)
    return {
      input: through(() => present.input),
      keyboard: through(() => present.keyboard),
      clipboard: through(() => present.clipboard),
      drags: through(() => present.drags),
    }
  }
  let onExchange: (next: Controls) => void = () => {}

  const version = (own: number) => own + exchanges * VERSIONS
  const own: Partial<Screen> = {
    async version() {
      return version(await now.screen.version())
    },
    async capture(region) {
      const captured = await now.screen.capture(region)
      return { ...captured, version: version(captured.version) }
    },
    async copy(room) {
      const copied = await now.screen.copy(room)
      return { ...copied, version: version(copied.version) }
    },
    watch(onChange) {
      watching.set(onChange, now.screen.watch(onChange))
      return () => {
        watching.get(onChange)?.()
        watching.delete(onChange)
      }
    },
    onResize: (listener) => void resized.push(listener),
  }

  const followed = new WeakSet<Display>()
  /** Its events are passed on as long as it is the present one, which it may become several times. */
  function follow(display: Display): void {
    if (followed.has(display)) return
    followed.add(display)
    void display.ended.then(() => now === display && onEnd())
    display.screen.onResize(async () => {
      if (now === display) for (const listener of resized) await listener()
    })
  }
  follow(first)

  return {
    screen: through(() => now.screen, own),
    windows: through(() => now.windows),
    get env() {
      return now.env
    },
    ended,
    said: () => now.said(),
    openControls: parts,
    openPicture(onCrash) {
      const opened = new WeakMap<Display, Picture>()
      return {
        connect(signal) {
          const picture = opened.get(now) ?? now.openPicture(onCrash)
          opened.set(now, picture)
          return picture.connect(signal)
        },
      }
    },
    close: () => now.close(),
    async exchange(next) {
      const nextControls = await next.openControls()
      const before = now
      const { viewport, cursor } = before.screen
      if (!isSame(next.screen.viewport, viewport)) await next.screen.resize(viewport)
      next.screen.cursor.hide(cursor.hidden)
      now = next
      controls = Promise.resolve(nextControls)
      onExchange(nextControls)
      exchanges++
      follow(next)
      for (const [onChange, unwatch] of watching) {
        unwatch()
        watching.set(onChange, next.screen.watch(onChange))
        onChange()
      }
      return before
    },
  }
}

const isSame = (a: Screen['viewport'], b: Screen['viewport']): boolean => a.width === b.width && a.height === b.height && a.refresh_rate === b.refresh_rate

/** An object whose members are always those of `part()`, but for those in `own`. */
function through<T extends object>(part: () => T, own: Partial<T> = {}): T {
  return new Proxy({} as T, {
    get(_, name) {
      if (Object.hasOwn(own, name)) return Reflect.get(own, name)
      const present = part()
      const member: unknown = Reflect.get(present, name, present)
      return typeof member === 'function' ? member.bind(present) : member
    },
  })
}
