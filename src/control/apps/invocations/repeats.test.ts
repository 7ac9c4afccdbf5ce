// Refused requests are remembered per caller.
import { expect, test } from 'vitest'
import { Refusals } from './repeats.ts'

const hash = (number: number): Buffer => Buffer.from(String(number))

test('a caller with very many refused requests makes the service forget none of another caller', () => {
  const refusals = new Refusals()
  refusals.add('other', hash(1))
  for (let number = 0; number < 2_500; number++) refusals.add('busy', hash(number))
  expect(refusals.take('other', hash(1))).toBe(true)
  expect(refusals.take('other', hash(1)), 'a record is used once').toBe(false)
  expect([refusals.take('busy', hash(1_499)), refusals.take('busy', hash(1_500)), refusals.take('busy', hash(2_499))]).toEqual([false, true, true])
})

test('very many callers are not all remembered', () => {
  const refusals = new Refusals()
  for (let number = 0; number < 1_100; number++) refusals.add(`caller ${number}`, hash(1))
  expect([refusals.take('caller 99', hash(1)), refusals.take('caller 100', hash(1))]).toEqual([false, true])
})
