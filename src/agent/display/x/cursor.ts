// Hides and shows the mouse cursor. Its position is not handled here.
import type { Cursor } from '../display.ts'
import type { XConnection } from './x11.ts'

/** The cursor of a display; `onChange` is called when it was hidden or shown. */
export function openCursor({ root, fixes }: XConnection, onChange: () => void): Cursor {
  let hidden = false
  return {
    get hidden() {
      return hidden
    },
    hide(wanted) {
      if (wanted === hidden) return
      hidden = wanted
      if (hidden) fixes.HideCursor(root)
      else fixes.ShowCursor(root)
      onChange()
    },
  }
}
