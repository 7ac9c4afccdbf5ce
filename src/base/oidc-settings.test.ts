// The settings of an identity provider: their parsed form, and the refused ones, by name.
import { expect, test } from 'vitest'
import { oidcSettings } from './oidc-settings.ts'

const GIVEN = { COB_OIDC_ISSUER: 'https://idp.test/realm', COB_OIDC_CLIENT_ID: 'cob' }

test('without an issuer there is no provider', () => {
  expect(oidcSettings({})).toBeUndefined()
})

test('an issuer and a client are enough', () => {
  expect(oidcSettings(GIVEN)).toEqual({
    issuer: 'https://idp.test/realm',
    clientId: 'cob',
    clientSecret: undefined,
    name: 'single sign-on',
    scopes: 'openid email profile',
    domains: [],
    trustsEmail: false,
    roleClaim: 'groups',
    roles: new Map(),
    defaultRole: undefined,
    firstOwner: undefined,
  })
})

test('lists are taken with spaces, and values of claims with "="', () => {
  const { domains, roles, firstOwner } = oidcSettings({
    ...GIVEN,
    COB_OIDC_EMAIL_DOMAINS: ' Team.test, @other.test,',
    COB_OIDC_ROLES: 'cn=admins=owner, all=viewer',
    COB_OIDC_FIRST_OWNER: 'Ann@Team.test',
  })!
  expect([domains, [...roles], firstOwner]).toEqual([
    ['team.test', 'other.test'],
    [
      ['cn=admins', 'owner'],
      ['all', 'viewer'],
    ],
    'ann@team.test',
  ])
})

test.each([
  [{ COB_OIDC_CLIENT_ID: 'cob' }, 'COB_OIDC_ISSUER'],
  [{ COB_OIDC_ISSUER: 'https://idp.test' }, 'COB_OIDC_CLIENT_ID'],
  [{ ...GIVEN, COB_OIDC_ISSUER: 'http://idp.test' }, 'COB_OIDC_ISSUER: must be https'],
  [{ ...GIVEN, COB_OIDC_ISSUER: 'idp.test' }, 'COB_OIDC_ISSUER'],
  [{ ...GIVEN, COB_OIDC_ISSUER: 'https://user@idp.test' }, 'COB_OIDC_ISSUER'],
  [{ ...GIVEN, COB_OIDC_ROLES: 'admins' }, 'COB_OIDC_ROLES'],
  [{ ...GIVEN, COB_OIDC_ROLES: 'admins=root' }, 'COB_OIDC_ROLES'],
  [{ ...GIVEN, COB_OIDC_DEFAULT_ROLE: 'admin' }, 'COB_OIDC_DEFAULT_ROLE'],
  [{ ...GIVEN, COB_OIDC_EMAIL_DOMAINS: 'team' }, 'COB_OIDC_EMAIL_DOMAINS'],
  [{ ...GIVEN, COB_OIDC_FIRST_OWNER: 'ann' }, 'COB_OIDC_FIRST_OWNER'],
  [{ ...GIVEN, COB_OIDC_SCOPES: 'email' }, 'COB_OIDC_SCOPES'],
  [{ ...GIVEN, COB_OIDC_CLIENT_SECRET: 'a\nb' }, 'COB_OIDC_CLIENT_SECRET'],
])('%j is refused, naming %s', (env, name) => {
  expect(() => oidcSettings(env)).toThrow(name)
})
