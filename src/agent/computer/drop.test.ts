// Dropping what the pointer drags, over a fake drag.
import { expect, test } from 'vitest'
import { makeBench, NEVER } from '../../../test/support/recorder.ts'
import type { Drags } from '../display/display.ts'
import { makeDrop } from './drop.ts'
import { HeldInput } from './held-input.ts'

/** A drag whose cursor has another shape after each of the first `changes` movements. */
function dragging(isOn: boolean, changes: number) {
  const bench = makeBench()
  const drags = { isOn, cursors: 0, ended: async () => void (drags.isOn = false) } satisfies Drags
  const moves = () => bench.log.filter((entry) => entry === 'move 5,6').length
  const settled = async () => {
    if (moves() > 0 && moves() <= changes) drags.cursors++
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  return { drags, drop: makeDrop({ drags, settled }), held: new HeldInput(bench.input, bench.keyboard), moves }
}

test('where nothing is dragged, the pointer is not moved', async () => {
  const { drop, held, moves } = dragging(false, 0)
  await drop.ready(held, [5, 6], NEVER)
  await drop.done(NEVER)
  expect(moves()).toBe(0)
})

test('a drag is told its place until the cursor keeps its shape', async () => {
  const { drop, held, moves } = dragging(true, 16)
  await drop.ready(held, [5, 6], NEVER)
  expect(moves()).toBe(17)
})

test('a cursor that changes all the time does not keep the button down', async () => {
  const { drop, drags, held, moves } = dragging(true, Infinity)
  await drop.ready(held, [5, 6], NEVER)
  expect(moves()).toBe(20)
  await drop.done(NEVER)
  expect(drags.isOn).toBe(false)
})

test('a caller that leaves ends the wait', async () => {
  const { drop, held } = dragging(true, Infinity)
  const caller = new AbortController()
  const ready = drop.ready(held, [5, 6], caller.signal)
  caller.abort(new Error('left'))
  await expect(ready).rejects.toThrow('left')
})
