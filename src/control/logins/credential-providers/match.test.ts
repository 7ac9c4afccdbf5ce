// Which item matches a domain.
import { expect, test } from 'vitest'
import { asDomain, bestMatch, fits, hostOf, hostsOf } from './match.ts'

const item = (title: string, ...urls: string[]) => ({ id: title, title, urls })

test.each([
  ['https://Example.com/login?a=b', 'example.com'],
  ['example.com', 'example.com'],
  ['example.com:8443/login', 'example.com'],
  ['example.com.', 'example.com'],
  ['*.example.com', '*.example.com'],
  ['https://*.example.com/in', '*.example.com'],
  ['bücher.example', 'xn--bcher-kva.example'],
  ['http://[::1]:3000/', '[::1]'],
  ['127.0.0.1:80', '127.0.0.1'],
  ['https://bank.example@evil.test/', undefined],
  ['mailto:kim@example.com', undefined],
  ['androidapp://com.example', undefined],
  ['exa*mple.com', undefined],
  ['*.*.example.com', undefined],
  ['', undefined],
  ['  ', undefined],
])('the host of "%s" is %s', (url, host) => {
  expect(hostOf(url)).toBe(host)
})

test('a domain is no pattern', () => {
  expect([asDomain('*.example.com'), asDomain('EXAMPLE.com'), asDomain('bücher.example'), asDomain('[::1]')]).toEqual([
    undefined,
    'example.com',
    'xn--bcher-kva.example',
    '[::1]',
  ])
})

const title = (domain: string, ...lists: ReturnType<typeof item>[][]) => bestMatch(domain, lists)?.title

test('the host itself comes before its parents, and a nearer parent before a farther one', () => {
  const items = [item('a far', 'example.com'), item('b near', 'in.example.com'), item('c exact', 'login.in.example.com')]
  expect(title('login.in.example.com', items)).toBe('c exact')
  expect(title('other.in.example.com', items)).toBe('b near')
  expect(title('www.example.com', items)).toBe('a far')
  expect(title('example.com', items)).toBe('a far')
})

test('a pattern is meant for the hosts below it, not for the name itself', () => {
  const items = [item('pattern', '*.example.com')]
  expect(title('a.example.com', items)).toBe('pattern')
  expect(title('a.b.example.com', items)).toBe('pattern')
  expect(title('example.com', items)).toBeUndefined()
})

test('hosts are compared by whole labels, never by parts of texts', () => {
  const items = [item('bank', 'https://bank.test/'), item('suffix', 'com')]
  for (const domain of [
    'notbank.test',
    'bank.test.evil.example',
    'evil.example/bank.test',
    'ank.test',
    'test',
    'bank.tes',
    'bank.com',
    'bank.test@evil.example',
  ])
    expect([domain, title(domain, items)]).toEqual([domain, undefined])
})

test('a child does not match its parent, and an address matches itself alone', () => {
  expect(title('example.com', [item('child', 'login.example.com')])).toBeUndefined()
  expect(title('127.0.0.1', [item('address', '0.0.1'), item('same', 'http://127.0.0.1:8080')])).toBe('same')
  expect(title('1.127.0.0.1', [item('same', '127.0.0.1')])).toBeUndefined()
})

test('a name below which everybody can have one is no parent', () => {
  expect(title('bank.co.uk', [item('suffix', 'co.uk'), item('pattern', '*.co.uk')])).toBeUndefined()
  expect(title('kim.github.io', [item('suffix', 'github.io')])).toBeUndefined()
  expect(title('kim.github.io', [item('pattern', '*.github.io')])).toBe('pattern')
  expect(title('github.io', [item('suffix', 'github.io')])).toBe('suffix')
})

test('names in other scripts are compared in their ASCII form', () => {
  expect(title('xn--bcher-kva.example', [item('books', 'https://BÜCHER.example/')])).toBe('books')
  expect(title('bücher.example', [item('books', 'xn--bcher-kva.example')])).toBe('books')
  // A look-alike name with a Cyrillic letter.
  expect(title('pаypal.test', [item('pay', 'paypal.test')])).toBeUndefined()
})

test('ties go by the order of providers, then by title, whatever the order in a list', () => {
  const [one, two, three] = [item('b', 'x.test'), item('a', 'x.test'), item('0', 'x.test')]
  expect(title('x.test', [one!, two!], [three!])).toBe('a')
  expect(title('x.test', [two!, one!], [three!])).toBe('a')
  expect(title('x.test', [item('parent', 'test.x'), item('z', '*.test')], [three!])).toBe('0')
})

test('an item is meant for the hosts of its URLs and the names below them, unless those belong to others', () => {
  expect(hostsOf(['https://shop.test/login', '*.example.com', 'user.github.io', 'https://me@evil.test/'])).toEqual([
    'shop.test',
    '*.shop.test',
    '*.example.com',
    'user.github.io',
    '*.user.github.io',
  ])
  expect(hostsOf(['com', 'localhost', 'https://10.0.0.1/', 'github.io', 'co.uk', '*.co.uk', '', 'mailto:a@b'])).toEqual([
    'com',
    'localhost',
    '10.0.0.1',
    'github.io',
    'co.uk',
  ])
  expect([fits('in.shop.test', ['https://shop.test']), fits('SHOP.test', ['shop.test']), fits('shop.test', ['in.shop.test']), fits('shop.test', [])]).toEqual([
    true,
    true,
    false,
    false,
  ])
})
