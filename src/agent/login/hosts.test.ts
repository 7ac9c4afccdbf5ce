// Which hosts may get values.
import { expect, test } from 'vitest'
import { isAllowedHost } from './hosts.ts'

test('a host is allowed by its whole name, and by a pattern of the names above it, which does not stand for its own name', () => {
  const allowed = ['login.site.test', '*.idp.test', '[::1]']
  for (const host of ['login.site.test', 'a.idp.test', 'a.b.idp.test', '[::1]']) expect([host, isAllowedHost(host, allowed)]).toEqual([host, true])
  for (const host of [
    '',
    'idp.test',
    '.idp.test',
    'site.test',
    'x.login.site.test',
    'login.site.test.evil.test',
    'evilidp.test',
    'idp.test.evil.test',
    '.idp.test2',
  ])
    expect([host, isAllowedHost(host, allowed)]).toEqual([host, false])
})
