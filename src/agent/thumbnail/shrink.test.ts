// Small pictures of large ones.
import { expect, test } from 'vitest'
import { shrink } from './shrink.ts'

function filled(width: number, height: number, colour: (x: number, y: number) => [number, number, number]) {
  const data = Buffer.alloc(width * height * 4)
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) data.set(colour(x, y).toReversed(), (y * width + x) * 4)
  return { data, stride: width * 4, width, height }
}
const at = ({ data, stride }: { data: Buffer; stride: number }, x: number, y: number) =>
  [...data.subarray(y * stride + x * 4, y * stride + x * 4 + 3)].toReversed()

test.each([
  [1920, 1080, 320, 180],
  [1080, 1920, 180, 320],
  [100, 50, 100, 50],
  [7680, 1, 320, 1],
])('%i x %i becomes %i x %i', (width, height, w, h) => {
  const small = shrink(
    filled(width, height, () => [255, 255, 255]),
    320,
  )
  expect([small.width, small.height, small.stride, small.data.length]).toEqual([w, h, w * 4, w * h * 4])
  expect(at(small, w - 1, h - 1)).toEqual([255, 255, 255])
})

test('a pixel is the mean of what it stands for, colour by colour', () => {
  // Stripes of one pixel, three to a small pixel.
  const small = shrink(
    filled(960, 3, (x) => [[255, 0, 90] as const][0]!.map((value, index) => (x % 3 === index ? value : 0)) as [number, number, number]),
    320,
  )
  expect(at(small, 100, 0)).toEqual([85, 0, 30])
})

test('a picture that is small enough stays as it is', () => {
  const one = filled(37, 11, (x, y) => [x * 3, y * 7, x + y])
  expect(shrink(one, 320).data.equals(one.data)).toBe(true)
})
