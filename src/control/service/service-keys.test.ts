// The key that signs and encrypts is never shorter than its file was meant to contain.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { scratchDir } from '../../../test/support/scratch.ts'
import { serviceKeys } from './service-keys.ts'

const pathsOf = (dir: string) => ({ secretKey: join(dir, 'secret-key'), sealingKeys: join(dir, 'sealing-keys') })

test('it is made once', () => {
  const paths = pathsOf(scratchDir('cob-keys-'))
  const { root } = serviceKeys({ secretKey: undefined, sealingKeys: [] }, paths)
  expect(root.secret).toHaveLength(32)
  expect(serviceKeys({ secretKey: undefined, sealingKeys: [] }, paths).root.id).toBe(root.id)
})

test.each(['', 'c2VjcmV0', `0x${'a'.repeat(62)}`, 'a'.repeat(63), `${'a'.repeat(64)}b`])('a file with "%s" is refused', (text) => {
  const paths = pathsOf(scratchDir('cob-keys-'))
  writeFileSync(paths.secretKey, text)
  expect(() => serviceKeys({ secretKey: undefined, sealingKeys: [] }, paths)).toThrow(paths.secretKey)
})
