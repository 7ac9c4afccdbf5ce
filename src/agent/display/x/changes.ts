// Detects whether the screen has changed: drawing (the server's Damage), pointer position, cursor shape. Idle while nobody asks.
import type { XConnection } from './x11.ts'

/** XFixes: every new shape of the cursor. */
const DISPLAY_CURSOR = 1
/** XInput: the master devices, of which the pointer on the screen is one. */
const ALL_MASTERS = 1

export interface Changes {
  /** Equal numbers mean equal screens. One round trip, 0.1 ms. */
  version(): Promise<number>
  /** Call this before reading the screen, with the server grabbed: resolves with the version of the current content. */
  mark(): Promise<number>
  /** Reports a change that draws nothing: the size, or hiding the cursor. */
  touch(): void
  /**
   * Calls `onChange` when the screen has changed since the last mark, until the returned function is called. After one call it may stay silent until
   * the screen is marked again.
   */
  watch(onChange: () => void): () => void
}

/** Watches a display. */
export async function watchChanges({ x, root, ask, fixes, damage, xinput }: XConnection): Promise<Changes> {
  const watched = x.AllocID()
  // Reports only the first drawing after each mark, so a busy page costs no more than a quiet one.
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
    // Pointer moves cause no Damage. They are reported only while a watcher is registered.
    if (name === 'DamageNotify' || name === 'CursorNotify' || name === 'XIRawMotion') touch()
  })
  const tellMoves = (wanted: boolean) => xinput.XISelectEvents(root, { deviceId: ALL_MASTERS, mask: wanted ? ['RawMotion'] : [] })

  /** When the answer comes, all reports sent before it have been processed. */
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
      // Nothing is drawn while the server is grabbed, so every later report is a change after this mark.
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
