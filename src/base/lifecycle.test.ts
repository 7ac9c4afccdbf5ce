// A lifecycle answers exactly what its table says.
import { expect, test } from 'vitest'
import { lifecycle } from './lifecycle.ts'

const door = lifecycle({ open: ['shut'], shut: ['open', 'locked', 'gone'], locked: ['shut'], gone: [] })

test('a move is allowed exactly when the table names it', () => {
  const allowed = door.states.flatMap((from) => door.states.filter((to) => door.allows(from, to)).map((to) => `${from} -> ${to}`))
  expect(allowed).toEqual(['open -> shut', 'shut -> open', 'shut -> locked', 'shut -> gone', 'locked -> shut'])
})

test('from gives every state that a state may be entered from', () => {
  expect(door.from('shut')).toEqual(['open', 'locked'])
  expect(door.from('gone')).toEqual(['shut'])
})

test('a state that nothing follows is terminal', () => {
  expect(door.states.filter((state) => door.isTerminal(state))).toEqual(['gone'])
})
