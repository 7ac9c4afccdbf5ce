// Valid values of as_user, and the user for each.
import { expect, test } from 'vitest'
import { accounts, identityOf, parseIdentity } from './users.ts'

const KNOWN = accounts('root:x:0:0:root:/root:/bin/sh\nkernel:x:1000:1000:kernel:/home/kernel:/bin/bash\nweb:x:33:34::/:/bin/false\n\nnonsense\n')

test.each([
  ['root', { uid: 0, gid: 0, name: 'root' }],
  ['web', { uid: 33, gid: 34, name: 'web' }],
  ['33', { uid: 33, gid: 34, name: 'web' }],
  ['33:7', { uid: 33, gid: 7, name: 'web' }],
  ['1234', { uid: 1234, gid: 1234, name: undefined }],
  ['1234:0', { uid: 1234, gid: 0, name: undefined }],
  ['4294967294', { uid: 4294967294, gid: 4294967294, name: undefined }],
])('as_user %s is accepted', (text, identity) => {
  expect(parseIdentity(text, KNOWN)).toEqual(identity)
})

test.each(['nobody-here', '', '-1', '1:', ':1', '1:2:3', '1.5', '0x10', '4294967295', '1:4294967295', '99999999999', 'web:33', ' root', 'root\n'])(
  'as_user "%s" is refused',
  (text) => {
    expect(() => parseIdentity(text, KNOWN)).toThrow(/^as_user: /)
  },
)

test("as_user and as_root together are refused; without both the program runs as the session's user", () => {
  expect(() => identityOf({ as_user: 'root', as_root: true })).toThrow('as_user: cannot be together with as_root')
  expect(identityOf({ as_user: null, as_root: false })).toBeUndefined()
  expect(identityOf({ as_root: true })).toEqual({ uid: 0, gid: 0, name: 'root' })
})
