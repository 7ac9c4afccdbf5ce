// The list of events while new events arrive.
import { expect, test } from 'vitest'
import { MAX_EVENTS, withNew } from './event-list.ts'

const events = (from: number, to: number) => Array.from({ length: from - to + 1 }, (_, at) => ({ seq: from - at }))

test('older events begin where the list was cut, so that none is left out', () => {
  const few = withNew({ events: events(100, 51), older: 51 }, events(110, 101))
  expect(few).toEqual({ events: events(110, 51), older: 51 })
  const many = withNew(few, events(MAX_EVENTS + 110, 111))
  expect(many).toEqual({ events: events(MAX_EVENTS + 110, 111), older: 111 })
  expect(withNew({ events: events(MAX_EVENTS, 1), older: undefined }, events(MAX_EVENTS + 1, MAX_EVENTS + 1)).older).toBe(2)
})
