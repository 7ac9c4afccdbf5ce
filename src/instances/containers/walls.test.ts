// The rules of a container's network, as text. test/docker tries them.
import { expect, test } from 'vitest'
import { rulesOf } from './walls.ts'

/** The lines of a chain, in order. */
function chain(rules: string, name: string): string[] {
  const from = rules.indexOf(`chain ${name} {`)
  return rules
    .slice(from, rules.indexOf('\n  }', from))
    .split('\n')
    .slice(1)
    .map((line) => line.trim())
}
/** The ranges of a set. */
const ranges = (rules: string, name: string): string[] => new RegExp(`set ${name} .*elements = \\{ (.*?) \\}`).exec(rules)?.[1]?.split(', ') ?? []

test('metadata addresses are refused before anything is opened, and what is closed after that', () => {
  const rules = rulesOf({ closed: ['203.0.113.7', '2001:db8::1', '172.18.0.0/16'], open: ['10.1.0.0/16'], servers: [], resolvers: [] })
  const lines = chain(rules, 'out')
  const at = (text: string) => lines.findIndex((line) => line.includes(text))
  expect(at('@never4 reject')).toBeGreaterThan(at('established'))
  expect(at('@open4 accept')).toBeGreaterThan(at('@never4 reject'))
  expect(at('@closed4 reject')).toBeGreaterThan(at('@open4 accept'))
  expect(at('@closed6 reject')).toBeGreaterThan(-1)
  expect(ranges(rules, 'never4')).toContain('169.254.0.0/16')
  expect(ranges(rules, 'closed4')).toEqual(
    expect.arrayContaining(['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', '203.0.113.7', '172.18.0.0/16']),
  )
  expect(ranges(rules, 'closed6')).toEqual(expect.arrayContaining(['fc00::/7', 'fe80::/10', '2001:db8::1']))
  expect(ranges(rules, 'open4')).toEqual(['10.1.0.0/16'])
})

test('inwards only the port of the program is open', () => {
  const lines = chain(rulesOf({ closed: [], open: [], servers: [], resolvers: [] }), 'in')
  expect(lines[0]).toContain('policy drop')
  expect(lines.filter((line) => line.includes('dport'))).toEqual(['tcp dport 2628 accept'])
})

test('with resolvers of its own, names are asked for at these only', () => {
  const of = (resolvers: string[]) => chain(rulesOf({ closed: [], open: [], servers: [], resolvers }), 'out').filter((line) => line.includes('dport 53'))
  expect(of([])).toEqual(['meta l4proto { tcp, udp } th dport 53 accept'])
  expect(of(['10.0.0.2', 'fd00::2', '169.254.169.253'])).toEqual([
    'ip daddr @resolvers4 meta l4proto { tcp, udp } th dport 53 accept',
    'ip6 daddr @resolvers6 meta l4proto { tcp, udp } th dport 53 accept',
  ])
  const lines = chain(rulesOf({ closed: [], open: [], servers: [], resolvers: ['169.254.169.253'] }), 'out')
  expect(lines.findIndex((line) => line.includes('@resolvers4'))).toBeLessThan(lines.findIndex((line) => line.includes('@never4')))
})

test('a server that is open is open at its port only', () => {
  const lines = chain(rulesOf({ closed: ['172.18.0.0/16'], open: [], servers: [{ host: '172.18.0.1', port: 2627 }], resolvers: [] }), 'out')
  const at = lines.indexOf('ip daddr 172.18.0.1 tcp dport 2627 accept')
  expect(at).toBeGreaterThan(lines.findIndex((line) => line.includes('@never4')))
  expect(at).toBeLessThan(lines.findIndex((line) => line.includes('@closed4')))
})
