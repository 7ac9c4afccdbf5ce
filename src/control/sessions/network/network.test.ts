// The option `network` of browsers: valid values of a create and an update, and how updates change a list of allowed hosts.
import { describe, expect, test } from 'vitest'
import { CreateBrowser, UpdateBrowser } from '../browsers/contract.ts'
import { OPTIONS } from '../browsers/options/contract.ts'
import { optionRules } from '../browsers/options/rules.ts'
import type { Network } from './contract.ts'

const rules = optionRules(OPTIONS)
/** The paths of the errors of a create with this network. */
const refused = (network: object, more: object = {}) => CreateBrowser.safeParse({ network, ...more }).error?.issues.map(({ path }) => path.join('.')) ?? []
const created = (network: object) => rules.stored(CreateBrowser.parse({ network })).network
const row = (network: Network | undefined) => ({
  ...rules.stored(CreateBrowser.parse({})),
  maxScreen: { width: 1, height: 1 },
  ...(network && { network }),
})
const updated = (given: object, before: Network | undefined) =>
  rules.changes(UpdateBrowser.parse({ network: given }), row(before)).find(({ name }) => name === 'network')?.stored?.network
const refusal = (given: object, before: Network | undefined) => {
  const found = rules.refuseUpdate(UpdateBrowser.parse({ network: given }), row(before))
  return found && (found.code ?? found.field)
}

describe('entries', () => {
  test.each([
    ['EXAMPLE.com', 'example.com'],
    ['*.Example.com', '*.example.com'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['8.8.8.8', '8.8.8.8'],
    ['[2001:4860:4860:0:0::8888]', '[2001:4860:4860::8888]'],
    ['8.8.4.0/24', '8.8.4.0/24'],
    ['2001:4860::/32', '2001:4860::/32'],
  ])('allowed_hosts: %s', (given, stored) => expect(created({ allowed_hosts: [given, given] })).toMatchObject({ allowed_hosts: [stored] }))

  test.each([
    '',
    '*',
    '*.',
    'a b',
    'http://example.com',
    'example.com/',
    'example.com:80',
    '*.*.com',
    'a.*.com',
    '1.2',
    '0x8080808',
    '*.com',
    '*.co.uk',
    '*.github.io',
    '*.internal',
    '10.0.0.1',
    '127.0.0.1',
    '192.168.0.0/16',
    '169.254.169.254',
    '0.0.0.0/0',
    '8.0.0.0/4',
    '::/0',
    '8.8.8.8/24',
    '8.8.8.8/33',
    '8.8.8.8/',
    '2001:4860::1',
    '[::1]',
    '[fd00::1]',
    'fd00::/8',
    '[::ffff:8.8.8.8]',
  ])('allowed_hosts: not %j', (entry) => expect(refused({ allowed_hosts: [entry] })).toEqual(['network.allowed_hosts.0']))

  test.each([
    'preview.internal',
    '*.example.ts.net',
    '10.1.30.63',
    '10.1.30.63:8080',
    '[fd00::1]:80',
    'preview.internal:3000',
    '100.64.0.0/10',
    '10.2.0.0/16',
    'fd00::/8',
  ])('private_hosts: %s', (entry) => expect(created({ private_hosts: [entry] })).toEqual({ private_hosts: [entry] }))

  test.each([
    '*.ts.net',
    '*.co.uk',
    '*.local',
    '8.8.8.8',
    '127.0.0.1',
    '169.254.0.0/16',
    '10.0.0.0/7',
    '0.0.0.0/0',
    '10.0.0.1/8',
    '10.0.0.0/8:80',
    '10.0.0.1:0',
    'a;b',
    'a,b',
    '<local>',
    'fd00::1',
  ])('private_hosts: not %s', (entry) => expect(refused({ private_hosts: [entry] })).toEqual(['network.private_hosts.0']))

  test.each(['8.8.8.8', '10.0.0.0/8', 'a.test:80'])('hosts of routes: not %s', (entry) =>
    expect(refused({ proxy_routes: [{ hosts: [entry], proxy: { id: 'p' } }] })).toEqual(['network.proxy_routes.0.hosts.0']),
  )
})

test.each([
  [{ allowed_hosts: [] }, ['network.allowed_hosts']],
  [{ allowed_hosts: ['a.test'], private_hosts: ['a.test:80'] }, ['network.allowed_hosts.0']],
  [{ allowed_hosts: ['*.b.test'], private_hosts: ['a.b.test'] }, ['network.allowed_hosts.0']],
  [{ private_hosts: Array.from({ length: 33 }, (_, at) => `h${at}.test`) }, ['network.private_hosts']],
  [{ proxy_routes: [{ hosts: ['a.test'], proxy: {} }] }, ['network.proxy_routes.0.proxy']],
  [{ proxy_routes: [{ hosts: ['a.test'], proxy: { id: 'p', name: 'n' } }] }, ['network.proxy_routes.0.proxy']],
  [{ proxy_routes: ['p', 'q'].map((id) => ({ hosts: ['a.test'], proxy: { id } })) }, ['network.proxy_routes.1.hosts.0']],
  [{ blocked_hosts: ['a.test'] }, ['network']],
  [{ allowed_hosts: Array.from({ length: 500 }, (_, at) => `${'a'.repeat(60)}.${'b'.repeat(60)}.${'c'.repeat(60)}.n${at}.test`) }, ['network']],
])('a create with %j is refused', (network, fields) => expect(refused(network)).toEqual(fields))

test('a session opens no page that it may not reach', () => {
  const start = (start_url: string) => refused({ allowed_hosts: ['a.test', '8.8.8.0/24'], private_hosts: ['p.test:8080', '10.0.0.0/8'] }, { start_url })
  for (const url of ['http://a.test/x', 'https://8.8.8.8', 'http://p.test:8080', 'http://10.1.2.3', 'about:blank', 'data:text/html,x'])
    expect(start(url)).toEqual([])
  for (const url of ['http://b.test', 'http://p.test', 'http://11.1.2.3', 'https://x.a.test']) expect(start(url)).toEqual(['start_url'])
})

test('nothing is stored of a network that says nothing', () => {
  expect(created({})).toBeUndefined()
  expect(rules.stored(CreateBrowser.parse({})).network).toBeUndefined()
})

describe('an update', () => {
  const before = created({ allowed_hosts: ['a.test'], private_hosts: ['p.test'] })!
  const { revision } = before.allowlist_state!

  test('replaces the list, and leaves the rest', () => {
    const after = updated({ allowed_hosts: ['B.test'] }, before)
    expect(after).toEqual({ allowed_hosts: ['b.test'], private_hosts: ['p.test'], allowlist_state: { revision: expect.any(String) } })
    expect(after!.allowlist_state!.revision).not.toBe(revision)
    expect(updated({}, before)).toEqual(before)
  })

  test('removes the list; there is none to change then', () => {
    const after = updated({ allowed_hosts: null }, before)
    expect(after).toEqual({ private_hosts: ['p.test'], allowlist_state: { revision: expect.any(String) } })
    expect(refusal({ allowed_hosts: ['a.test'] }, after)).toBe('network.allowed_hosts')
    expect(refusal({ allowed_hosts: ['a.test'] }, undefined)).toBe('network.allowed_hosts')
    expect(refusal({ allowed_hosts: ['a.test'] }, created({ private_hosts: ['p.test'] }))).toBe('network.allowed_hosts')
  })

  test('with an expected revision happens once, also when it is tried again, and not after another one', () => {
    const change = { allowed_hosts: ['b.test'], expected_allowlist_revision: revision, mutation_id: 'm' }
    const after = updated(change, before)!
    expect(after.allowlist_state).toMatchObject({ base_revision: revision, mutation_id: 'm' })
    expect([refusal(change, after), updated(change, after)]).toEqual([undefined, after])
    for (const other of [
      { ...change, mutation_id: 'n' },
      { ...change, allowed_hosts: ['c.test'] },
      { ...change, allowed_hosts: null },
    ])
      expect(refusal(other, after)).toBe('stale_network')
    const next = updated({ allowed_hosts: ['c.test'] }, after)!
    expect(refusal(change, next)).toBe('stale_network')
    const removal = { allowed_hosts: null, expected_allowlist_revision: next.allowlist_state!.revision, mutation_id: 'r' }
    const removed = updated(removal, next)!
    expect([refusal(removal, removed), updated(removal, removed)]).toEqual([undefined, removed])
  })

  test.each([
    [{ allowed_hosts: ['a.test'], mutation_id: 'm' }, ['network.mutation_id']],
    [{ expected_allowlist_revision: 'r', mutation_id: 'm' }, ['network.allowed_hosts']],
    [{ allowed_hosts: [] }, ['network.allowed_hosts']],
    [{ private_hosts: [] }, ['network']],
  ])('with %j is refused', (network, fields) => expect(UpdateBrowser.safeParse({ network }).error!.issues.map(({ path }) => path.join('.'))).toEqual(fields))
})
