// For any pages of a site: the flow ends within 15 pages, and a stored password is sent at most once.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { decide, MAX_PAGES } from './decide.ts'
import type { Known } from './decision.ts'
import { allowedHosts, isAllowedHost } from './hosts.ts'
import { PAGE_KINDS, type FieldRole, type Interpretation, type PageField } from './interpretation.ts'
import { readMemory } from './memory.ts'
import { canonicalKey, SecretResolver } from './secrets.ts'

const field = (role: FieldRole, key: string, host: string, isInvalid: boolean): PageField => ({
  ref: '1.0.1',
  role,
  key,
  label: key,
  placeholder: '',
  required: true,
  hint: undefined,
  isInvalid,
  isFilled: false,
  boxes: undefined,
  options: undefined,
  codeBy: undefined,
  xpath: '/x',
  host,
})
const anyField = fc
  .tuple(
    fc.constantFrom<[FieldRole, string][]>(
      ['identifier', 'username'],
      ['password', 'password'],
      ['code', 'code'],
      ['text', 'server'],
      ['password_new', 'new_password'],
    ),
    fc.constantFrom('example.test', 'evil.test'),
    fc.boolean(),
  )
  .map(([[role, key], host, isInvalid]) => field(role, key, host, isInvalid))
const anyPage = fc.record({
  seen: fc.record({
    kind: fc.constantFrom(...PAGE_KINDS),
    confidence: fc.double({ min: 0, max: 1, noNaN: true }),
    evidence: fc.constant([]),
    fields: fc.array(anyField, { maxLength: 3 }),
    choices: fc.array(
      fc.record({
        ref: fc.constant('1.0.2'),
        type: fc.constantFrom('mfa_method' as const, 'sso_provider' as const, 'account' as const),
        label: fc.constantFrom('a', 'b'),
        provider: fc.constantFrom(undefined, 'google'),
        mfa: fc.constantFrom(undefined, 'totp' as const, 'sms' as const, 'switch' as const, 'password' as const),
        maskedDestination: fc.constant(undefined),
        description: fc.constant(undefined),
        xpath: fc.constant('/y'),
      }),
      { maxLength: 3 },
    ),
    submit: fc.constantFrom(undefined, '1.0.3'),
    proceed: fc.constantFrom(undefined, '1.0.4'),
    tick: fc.constant([]),
    loginLinks: fc.constantFrom([], ['1.0.5'], ['1.0.5', '1.0.6']),
    dismiss: fc.constantFrom(undefined, undefined, '1.0.7'),
    websiteError: fc.constantFrom(undefined, 'Wrong.'),
    external: fc.constantFrom(undefined, { action: 'captcha' as const, message: '' }, { action: 'push' as const, message: '' }),
    signOut: fc.constant(undefined),
    signature: fc.constantFrom('one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight'),
  }) satisfies fc.Arbitrary<Interpretation>,
  page: fc.record({
    url: fc.constant('https://example.test/'),
    host: fc.constantFrom('example.test', 'example.test', 'sub.example.test', 'evil.test'),
    status: fc.constantFrom(null, 200, 200, 200, 401, 403, 404, 503),
    error: fc.constantFrom(null, null, null, 'net::ERR_FAILED'),
  }),
})

const about = (isAttended: boolean): Known => {
  const secrets = new SecretResolver(
    { version: '', values: { username: 'ada', password: 'pw', server: 's' }, ssoProvider: undefined, totp: { period: 30 } },
    {},
  )
  return {
    sourceOf: (key, role) => secrets.sourceOf(key, role),
    hasTotp: true,
    ssoProvider: undefined,
    scrub: (text) => text,
    isOwn: () => false,
    hosts: (sso) => allowedHosts({ domain: 'example.test', allowedDomains: [], sso }),
    candidates: ['https://example.test/login', 'https://example.test/'],
    learned: undefined,
    isAttended,
  }
}

test('any run of pages ends within 15 of them, sends a stored password once, and types only at allowed hosts', () => {
  fc.assert(
    fc.property(fc.array(anyPage, { minLength: 90, maxLength: 90 }), fc.boolean(), (pages, isAttended) => {
      let memory = readMemory({})
      let passwords = 0
      let acted = 0
      for (const { seen, page } of pages) {
        const { decision, memory: later } = decide(memory, seen, page, about(isAttended))
        // The memory survives the database.
        memory = readMemory(JSON.parse(JSON.stringify(later)) as Record<string, unknown>)
        if (memory.sent) memory.sent.isUnsure = false
        if (decision.do === 'fail' || decision.do === 'ask' || decision.do === 'verify') return
        if (decision.do === 'fill') {
          passwords += decision.fills.some(({ field: { role }, source }) => role === 'password' && source === 'stored') ? 1 : 0
          expect(decision.fills.every(({ field: { role } }) => role !== 'password_new')).toBe(true)
          for (const host of [page.host, ...decision.fills.map(({ field: each }) => each.host)])
            expect(isAllowedHost(host, about(true).hosts(memory.sso))).toBe(true)
        }
        if (decision.do !== 'look') acted++
        expect(passwords).toBeLessThanOrEqual(1)
        expect(acted).toBeLessThanOrEqual(MAX_PAGES + 1)
      }
      expect.fail('the flow went on for 90 pages')
    }),
    { numRuns: 300, endOnFailure: true },
  )
})

test('hosts are compared whole, in ASCII, never as parts of a text', () => {
  const hosts = allowedHosts({ domain: 'bücher.test', allowedDomains: ['login.other.test'], sso: '' })
  const is = (host: string) => isAllowedHost(host, hosts)
  expect(['xn--bcher-kva.test', 'BÜCHER.test', 'a.b.xn--bcher-kva.test', 'bücher.test.', 'x.login.other.test'].filter((host) => !is(host))).toEqual([])
  expect(['', 'evil-xn--bcher-kva.test', 'xn--bcher-kva.test.evil.test', 'bucher.test', 'other.test', 'accounts.google.com', 'null', '.'].filter(is)).toEqual(
    [],
  )
})

test('identity providers are allowed once one was chosen, by the names that are listed', () => {
  const hosts = allowedHosts({ domain: 'example.test', allowedDomains: [], sso: 'sso' })
  const is = (host: string) => isAllowedHost(host, hosts)
  expect(['accounts.google.com', 'tenant.okta.com', 'a.eu.auth0.com', 'github.com'].every(is)).toBe(true)
  expect(['okta.com', 'google.com', 'evil.github.com', 'accounts.google.com.evil.test', 'notokta.com'].filter(is)).toEqual([])
})

test('a service that was chosen by its name allows its own hosts only, and one that names none of those that are listed allows them all', () => {
  const allowed = (sso: string) => {
    const hosts = allowedHosts({ domain: 'example.test', allowedDomains: [], sso })
    return ['accounts.google.com', 'github.com', 'login.live.com', 'tenant.okta.com', 'tenant.auth0.com'].filter((host) => isAllowedHost(host, hosts))
  }
  expect(['', 'google', 'microsoft', 'okta'].map(allowed)).toEqual([[], ['accounts.google.com'], ['login.live.com'], ['tenant.okta.com']])
  for (const sso of ['sso', 'acme', 'constructor']) expect(allowed(sso)).toHaveLength(5)
})

test('a domain that begins with www. allows the name without it, and no names below that', () => {
  const hosts = allowedHosts({ domain: 'www.example.test', allowedDomains: [], sso: '' })
  expect(['www.example.test', 'example.test', 'a.www.example.test', 'login.example.test'].map((host) => isAllowedHost(host, hosts))).toEqual([
    true,
    true,
    true,
    false,
  ])
})

test('an identifier falls back to the other ones, and a person comes before the credential', () => {
  const secrets = new SecretResolver({ version: '', values: { 'E-Mail': 'a@b.test', Pass: 'stored' }, ssoProvider: undefined, totp: undefined }, {})
  expect(secrets.valueOf('username', 'identifier', 'stored')).toBe('a@b.test')
  expect(secrets.sourceOf('server', 'text')).toBeUndefined()
  expect(secrets.sourceOf('password', 'password')).toBe('stored')
  secrets.type('password', 'password', 'typed')
  expect(secrets.sourceOf('password', 'password')).toBe('typed')
  secrets.type('code', 'code', '123456')
  expect(secrets.typed()).toEqual({ password: 'typed' })
  expect(canonicalKey('User Name')).toBe('username')
})
