// Files with secrets: made once, and an empty file is not accepted as a secret.
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { scratchDir } from '../../test/support/scratch.ts'
import { secretFile } from './secret-file.ts'

test('one that is not there is made, for its owner only, and read from then on', () => {
  const file = join(scratchDir('cob-secret-'), 'key')
  expect(secretFile(file, () => 'one')).toEqual({ value: 'one', made: true })
  expect(secretFile(file, () => 'two')).toEqual({ value: 'one', made: false })
  expect([readFileSync(file, 'utf8'), statSync(file).mode & 0o777]).toEqual(['one\n', 0o600])
})

test('an empty one is refused', () => {
  const file = join(scratchDir('cob-secret-'), 'key')
  writeFileSync(file, '\n')
  expect(() => secretFile(file, () => 'one')).toThrow(`${file} is empty`)
})
