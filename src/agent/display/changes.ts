// Whether the screen has changed: drawing (the server's Damage), the pointer, its shape. Costs nothing while nobody asks.
import type { XConnection } from './x11.ts'

/** XFixes: every new shape of the cursor. */
const DISPLAY_CURSOR = 1
/** XInput: the master devices, of which the pointer on the screen is one. */
const ALL_MASTERS = 1

export interface Changes {
  /** Equal numbers mean equal screens. One round trip, 0.1 ms. */
  version(): Promise<number>
  /** For who is about to read the screen, with the server grabbed: resolves with the version of what is on it now. */
  mark(): Promise<number>
  /** Something changed that nobody draws: the size, or the cursor being hidden. */
  touch(): void
  /**
   * Calls `onChange` when something has changed since it was last marked, until the returned function is called. Once it has
   * been called it may be silent until the screen is marked again.
   */
  watch(onChange: () => void): () => void
}

/** Watches a display. */
export async function watchChanges({ x, root, ask, fixes, damage, xinput }: XConnection): Promise<Changes> {
  const watched = x.AllocID()
  // One report when something is drawn for the first time since it was last marked, then silence: a busy page costs no more.
  damage.Create(watched, root, damage.ReportLevel.NonEmpty)
  fixes.SelectCursorInput(root, DISPLAY_CURSOR)
  let version = 0
  let changed = true
  let pointer = ''
  const watchers = new Set<() => void>()
  const touch = () => {
    changed = true
    for (const onChange of watchers) onChange()
  }
  x.on('event', ({ name }: { name: string }) => {
    // Moves of the pointer draw nothing that is reported; they are told of only while somebody watches.
    if (name === 'DamageNotify' || name === 'CursorNotify' || name === 'XIRawMotion') touch()
  })
  const tellMoves = (wanted: boolean) => xinput.XISelectEvents(root, { deviceId: ALL_MASTERS, mask: wanted ? ['RawMotion'] : [] })

  /** Reports sent before the answer have been heard when it comes. */
  async function look(): Promise<void> {
    const { rootX, rootY } = await ask<{ rootX: number; rootY: number }>((done) => x.QueryPointer(root, done))
    const at = `${rootX},${rootY}`
    if (at !== pointer) changed = true
    pointer = at
  }

  return {
    async version() {
      await look()
      if (changed) version++
      return version
    },
    async mark() {
      damage.Subtract(watched, 0, 0)
      await look()
      // Nothing is drawn while the server is grabbed, so whatever is reported from here on is a change of what is marked.
      if (changed) version++
      changed = false
      return version
    },
    touch,
    watch(onChange) {
      if (watchers.size === 0) tellMoves(true)
      watchers.add(onChange)
      return () => {
        if (watchers.delete(onChange) && watchers.size === 0) tellMoves(false)
      }
    },
  }
}
