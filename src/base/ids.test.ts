// The form of ids. The tests of browsers check that no name may have this form.
import { expect, test } from 'vitest'
import { isId, newId } from './ids.ts'

const MANY = 5_000

test('ids do not repeat, and use all letters and digits at all 24 positions except the first, which is a letter', () => {
  const ids = Array.from({ length: MANY }, newId)
  expect(ids.every((id) => /^[a-z][a-z0-9]{23}$/.test(id) && isId(id))).toBe(true)
  expect(new Set(ids).size).toBe(MANY)
  for (let place = 0; place < 24; place++) expect(new Set(ids.map((id) => id[place])).size).toBe(place === 0 ? 26 : 36)
})

test.each([
  '',
  'a',
  'htzv5orfit78e1m2biiifpb',
  'htzv5orfit78e1m2biiifpbvv',
  '1tzv5orfit78e1m2biiifpbv',
  'Htzv5orfit78e1m2biiifpbv',
  'htzv5orfit78e1m2-iiifpbv',
  'htzv5orfit78e1m2biiifpbv\n',
  ' htzv5orfit78e1m2biiifpbv',
  'htzv5orfit78e1m2biiifpbé',
])('isId refuses %j', (text) => {
  expect(isId(text)).toBe(false)
})
