// Finds a code field that has one box for each character.
import type { Seen } from './view.ts'

const LEAST_BOXES = 4
const MOST_BOXES = 10
/** In pixels: boxes of one row differ only by rounding. */
const SAME_ROW = 12

/** The boxes of a code among fields, from left to right; empty unless four to ten boxes of one character are in a row. */
export function codeBoxes(fields: Seen[]): Seen[] {
  const single = fields.filter(({ control }) => control.tag === 'input' && control.maxlength === 1 && control.type !== 'email')
  const rows: Seen[][] = []
  for (const seen of single) {
    const row = rows.find(([first]) => Math.abs(first!.control.box.y - seen.control.box.y) <= SAME_ROW)
    if (row) row.push(seen)
    else rows.push([seen])
  }
  const row = rows.find(({ length }) => length >= LEAST_BOXES && length <= MOST_BOXES)
  return row?.toSorted((a, b) => a.control.box.x - b.control.box.x) ?? []
}
