// Which hosts may get values.
import { expect, test } from 'vitest'
import { isAllowedHost } from './hosts.ts'

test('a host is allowed by its whole name, and by a pattern of itself and the names below it', () => {
  const allowed = ['login.site.test', '*.idp.test', '[::1]']
  for (const host of ['login.site.test', 'idp.test', 'a.idp.test', 'a.b.idp.test', '[::1]']) expect([host, isAllowedHost(host, allowed)]).toEqual([host, true])
  for (const host of ['', 'site.test', 'x.login.site.test', 'login.site.test.evil.test', 'evilidp.test', 'idp.test.evil.test', '.idp.test2'])
    expect([host, isAllowedHost(host, allowed)]).toEqual([host, false])
})
