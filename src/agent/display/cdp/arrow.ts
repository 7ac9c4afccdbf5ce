// The mouse cursor in pictures of a browser without a display.
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
