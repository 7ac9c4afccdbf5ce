// Items of providers in connections that a key of one project has created: they are typed only on the sites in their URLs, and at no other host that the key
// has chosen.
import { describe, expect, test } from 'vitest'
import { link } from '../../../../../test/support/page-models.ts'
import { answering, endOf, enter, HOME, loginForm, right, run, STORED, username } from '../../../../../test/support/login-runs.ts'
import { World, type Site } from '../../../../../test/support/login-site.ts'
import { ProviderProblem } from '../../credential-providers/resolve.ts'

/** A site with the form at this address. */
const formAt =
  (url: string): Site =>
  (_, state) =>
    state.user !== '' ? HOME : { ...loginForm(), more: { ...loginForm().more, url, host: new URL(url).hostname }, press: () => enter(state) }

interface Case {
  at: string
  hosts: string[]
  isOfProject?: boolean
  allowed?: string[]
  path?: string | null
}
function world({ at, hosts, isOfProject = true, allowed = ['other.test'], path = 'Vault/Item' }: Case): World {
  const connection = { login_url: at, allowed_domains: allowed, provider_id: 'provider', provider_path: path, by_project_key: isOfProject }
  const made = new World(formAt(at), { connection })
  made.provided = () => ({ values: STORED, totp: undefined, hosts })
  return made
}
const sentTo = (made: World) => made.sent.filter(({ values }) => Object.values(values).includes(right)).length

describe('an item of a provider, in a connection that a key of one project has made', () => {
  test.each([
    ['the domain', { at: 'https://example.test/login', hosts: ['example.test'] }],
    ['a name below the domain', { at: 'https://login.example.test/', hosts: ['example.test'] }],
    ['an allowed domain that the item has', { at: 'https://in.other.test/', hosts: ['example.test', 'other.test', '*.other.test'] }],
  ] satisfies [string, Case][])('is typed at %s', async (_, it) => {
    const made = await run(world(it))
    expect([endOf(made), sentTo(made)]).toEqual(['SUCCESS', 1])
  })
  test.each([
    ['an allowed domain that the item has not', { at: 'https://other.test/login', hosts: ['example.test'] }],
    ['the same, when the item is looked up by the domain', { at: 'https://other.test/login', hosts: ['example.test'], path: null }],
    ['a host of the item that is not allowed', { at: 'https://other.test/login', hosts: ['other.test'], allowed: [] }],
  ] satisfies [string, Case][])('is not typed at %s', async (_, it) => {
    const made = await run(world(it))
    expect([endOf(made), made.sent]).toEqual(['domain_not_allowed', []])
  })
  test('is not typed at an identity provider which the page has led to', async () => {
    const site: Site = (url, state) =>
      url.hostname === 'evil.auth0.com'
        ? formAt('https://evil.auth0.com/login')(url, state)
        : { ...loginForm({}, [link('Sign in with Google', '/authorize', { href_host: 'evil.auth0.com' })]), press: () => '/login' }
    const made = world({ at: 'https://example.test/login', hosts: ['example.test'] })
    made.site = site
    made.person = ({ choices, fields }) => {
      const other = choices.find(({ type }) => type === 'sso_provider')
      return other ? { choice: other.id } : { values: { [fields[0]!.id]: username } }
    }
    made.provided = () => ({ values: { password: right }, totp: undefined, hosts: ['example.test'] })
    await run(made)
    expect(made.sent.filter(({ host }) => host === 'evil.auth0.com')).toEqual([])
    expect(endOf(made)).toBe('domain_not_allowed')
  })
  test.each([
    ['https://example.test/login', 'plain', 'SUCCESS'],
    ['https://example.test/login', 'all', 'domain_not_allowed'],
    ['http://example.test/login', 'plain', 'domain_not_allowed'],
    ['http://example.test/login', 'nothing', 'SUCCESS'],
  ] as const)('at %s, where the proxy can read %s of what is sent: %s', async (at, proxyReads, end) => {
    const made = world({ at, hosts: ['example.test'] })
    made.connection.proxy_id = 'proxy'
    made.proxyReads = proxyReads
    await run(made)
    expect([endOf(made), sentTo(made)]).toEqual([end, end === 'SUCCESS' ? 1 : 0])
  })
  test('leaves a person free to type at an allowed domain', async () => {
    const made = world({ at: 'https://other.test/login', hosts: ['example.test'] })
    made.provided = () => ({ values: {}, totp: undefined, hosts: ['example.test'] })
    made.person = answering({ username, password: right })
    await run(made)
    expect([endOf(made), sentTo(made)]).toEqual(['SUCCESS', 1])
  })
  test('that is not meant for the domain any more is not given', async () => {
    const made = world({ at: 'https://example.test/login', hosts: [] })
    const asked: unknown[] = []
    made.provided = (by) => {
      asked.push(by)
      throw new ProviderProblem('credential_not_found', 'no item at this path for this domain')
    }
    await run(made)
    expect(asked).toEqual([{ path: 'Vault/Item', domain: 'example.test' }])
    expect(made.row.end).toMatchObject({ errorCode: 'credential_not_found', errorMessage: 'no item at this path for this domain' })
  })
})

test('an item of a provider, in a login for which a key of one project has chosen the proxy, is typed where that cannot read it', async () => {
  const made = world({ at: 'http://example.test/login', hosts: ['example.test'], isOfProject: false })
  made.row.asked = { proxy_id: 'proxy', by_project_key: true }
  made.proxyReads = 'plain'
  await run(made)
  expect([endOf(made), made.sent]).toEqual(['domain_not_allowed', []])
})

test('an item of a provider, in a connection whose credential an operator has set, is typed at all its allowed domains', async () => {
  const made = world({ at: 'https://other.test/login', hosts: ['example.test'], isOfProject: false })
  const asked: unknown[] = []
  made.provided = (by) => (asked.push(by), { values: STORED, totp: undefined, hosts: ['example.test'] })
  await run(made)
  expect([endOf(made), sentTo(made), asked]).toEqual(['SUCCESS', 1, [{ path: 'Vault/Item', domain: undefined }]])
})
