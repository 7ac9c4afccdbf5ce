// Settings that are refused at the start, each by its name.
import { expect, test } from 'vitest'
import { readConfig } from './config.ts'

test.each(['COB_PUBLIC_URL', 'COB_GIT_BASE'])('%s is an origin; whatever would be left out of it is refused', (name) => {
  for (const text of [
    'https://user:secret@example.org',
    'https://user@example.org',
    'https://example.org/path',
    'https://example.org/?a',
    'ftp://example.org',
    'x',
  ])
    expect(() => readConfig({ [name]: text })).toThrow(new RegExp(`^${name}: must be an http or https origin`))
  expect(JSON.stringify(readConfig({ [name]: 'https://example.org:8443' }))).toContain('"https://example.org:8443"')
})
