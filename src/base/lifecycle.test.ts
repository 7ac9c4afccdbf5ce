// A lifecycle answers exactly what its table says.
import { expect, test } from 'vitest'
import { lifecycle } from './lifecycle.ts'

const door = lifecycle({ open: ['shut'], shut: ['open', 'locked', 'gone'], locked: ['shut'], gone: [] })

test('a transition is allowed exactly if the table contains it', () => {
  const allowed = door.states.flatMap((from) => door.states.filter((to) => door.allows(from, to)).map((to) => `${from} -> ${to}`))
  expect(allowed).toEqual(['open -> shut', 'shut -> open', 'shut -> locked', 'shut -> gone', 'locked -> shut'])
})

test('from() returns every state from which a state can be entered', () => {
  expect(door.from('shut')).toEqual(['open', 'locked'])
  expect(door.from('gone')).toEqual(['shut'])
})

test('a state without a successor is terminal', () => {
  expect(door.states.filter((state) => door.isTerminal(state))).toEqual(['gone'])
})
