// The mouse cursor in pictures of a browser without a display.
import type { Point } from '../../computer/path.ts'
import type { Pixels } from '../display.ts'

/** `#` is black, `.` white; the tip is at the upper left. */
const ARROW = [
  '#           ',
  '##          ',
  '#.#         ',
  '#..#        ',
  '#...#       ',
  '#....#      ',
  '#.....#     ',
  '#......#    ',
  '#.......#   ',
  '#........#  ',
  '#.....####  ',
  '#..#..#     ',
  '#.# #..#    ',
  '##  #..#    ',
  '#    #..#   ',
  '     #..#   ',
  '      ##    ',
]

export const ARROW_SIZE = { width: ARROW[0]!.length, height: ARROW.length }

/** The cursor with its tip at a point, as far as it is inside the picture: rows of pixels of one colour, `value` in red, green and blue. */
export function arrowRuns([left, top]: Point, picture: { width: number; height: number }): { x: number; y: number; width: number; value: 0 | 255 }[] {
  return ARROW.flatMap((line, row) => {
    if (left < 0 || top + row < 0 || top + row >= picture.height) return []
    return Array.from(line.slice(0, Math.max(0, picture.width - left)).matchAll(/#+|\.+/g), ({ index, 0: dots }) => ({
      x: left + index,
      y: top + row,
      width: dots.length,
      value: dots[0] === '#' ? 0 : 255,
    }))
  })
}

/** Draws the cursor with its tip at a point, as far as it is inside the picture. */
export function drawArrow({ data, stride, width, height }: Pixels, left: number, top: number): void {
  ARROW.forEach((line, row) => {
    const y = top + row
    if (y < 0 || y >= height) return
    Array.from(line).forEach((dot, column) => {
      const x = left + column
      if (dot !== ' ' && x >= 0 && x < width) data.fill(dot === '#' ? 0 : 255, y * stride + x * 4, y * stride + x * 4 + 3)
    })
  })
}
