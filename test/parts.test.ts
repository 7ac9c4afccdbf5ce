// The lists of what `script/test` leaves out and runs name files that are there, and leave out nothing that keeps others out.
import { existsSync } from 'node:fs'
import { expect, test } from 'vitest'
import { LONG_FAST, SHORT_DESK, SHORT_HANDS, SHORT_REAL } from './support/parts.ts'

test.each([...LONG_FAST, ...SHORT_DESK, ...SHORT_HANDS, ...SHORT_REAL])('%s is there', (file) => expect(existsSync(file)).toBe(true))

test('attacks, walls between projects and rights are never left out', () => {
  expect(LONG_FAST.filter((file) => file.startsWith('test/'))).toEqual([])
  expect(SHORT_REAL).toContain('test/e2e/isolation.test.ts')
})
