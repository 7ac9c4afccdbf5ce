// The lists of what `script/test` runs name files that are there, and what keeps others out is among them.
import { existsSync } from 'node:fs'
import { expect, test } from 'vitest'
import { SHORT_DESK, SHORT_HANDS, SHORT_REAL } from './support/parts.ts'

test.each([...SHORT_DESK, ...SHORT_HANDS, ...SHORT_REAL])('%s is there', (file) => expect(existsSync(file)).toBe(true))

test('attacks, walls between projects and rights are never left out', () => {
  expect(SHORT_REAL).toContain('test/e2e/isolation.test.ts')
})
