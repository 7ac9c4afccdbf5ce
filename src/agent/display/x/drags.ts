// Whether a program drags something. By the X protocol for that (XDND) it owns a selection from the start of a drag to its end, also when Chromium drags
// within itself, where it sends no messages.
import { resultWithin } from '../../../base/wait.ts'
import type { Drags } from '../display.ts'
import type { XConnection } from './x11.ts'

/** XFixes: a new owner, the owner's window destroyed, the owner's connection closed. */
const EVERY_CHANGE = 7
/** Chromium gives a target 1 s to take a drop. */
const DROP_MS = 1_500

/** Watches a display, whose connection gets its cursor events already (changes.ts). */
export async function watchDrags({ x, root, atom, fixes }: Pick<XConnection, 'x' | 'root' | 'atom' | 'fixes'>): Promise<Drags> {
  const xdnd = await atom('XdndSelection')
  let drag: PromiseWithResolvers<void> | undefined
  let cursors = 0
  const end = () => {
    drag?.resolve()
    drag = undefined
  }
  x.on('event', ({ name, subtype, selection, owner }: { name: string; subtype?: number; selection: number; owner: number }) => {
    if (name === 'CursorNotify') cursors++
    // An answer to a request for a selection has the same name, and no subtype.
    if (name !== 'SelectionNotify' || subtype === undefined || selection !== xdnd) return
    if (owner === 0) end()
    else drag ??= Promise.withResolvers()
  })
  fixes.SelectSelectionInput(root, xdnd, EVERY_CHANGE)
  return {
    get isOn() {
      return drag !== undefined
    },
    get cursors() {
      return cursors
    },
    async ended(signal) {
      if (drag) await resultWithin(DROP_MS, drag.promise, signal)
      // Some programs keep the selection. The next drag takes it again.
      end()
    },
  }
}
