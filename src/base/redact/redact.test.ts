// The parts of texts of all kinds that are found to be secrets, and those that are not.
import fc from 'fast-check'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { scrubHeaders } from './headers.ts'
import { FIELD_PARTS, FIELD_WORDS, secretKind } from './names.ts'
import { announcedPlaces, announcesSecret, cutText, makeSecrets } from './redact.ts'

const CANARY = 'cAnarY-7731'
const secrets = makeSecrets()
const R = '[redacted]'

describe('names beside a value tell that it is a secret', () => {
  test.each([
    [`https://a.test/?user=kim&password=${CANARY}&x=1`, `https://a.test/?user=kim&password=${R}&x=1`],
    [`https://a.test/#access_token=${CANARY}&token_type=bearer`, `https://a.test/#access_token=${R}&token_type=bearer`],
    [`https://kim:${CANARY}@a.test/path`, `https://${R}@a.test/path`],
    [`https://a.test/cb?code=${CANARY}&state=abc`, `https://a.test/cb?code=${R}&state=abc`],
    [`https://a.test/?next=https%3A%2F%2Fb.test%2F%3Ftoken%3D${CANARY}%26y%3D1&z=2`, `https://a.test/?next=https%3A%2F%2Fb.test%2F%3Ftoken%3D${R}%26y%3D1&z=2`],
    [`https://a.test/?X-Amz-Signature=${CANARY}&X-Amz-Date=2`, `https://a.test/?X-Amz-Signature=${R}&X-Amz-Date=2`],
    [`user%5Bpassword%5D=${CANARY}%26more&b=1`, `user%5Bpassword%5D=${R}&b=1`],
    [`{"user":"kim","password":"${CANARY}","n":1}`, `{"user":"kim","password":"${R}","n":1}`],
    [`{"apiKey" : "${CANARY}\\" more", "n":1}`, `{"apiKey" : "${R}", "n":1}`],
    [`{"pin":77317731,"n":1}`, `{"pin":${R},"n":1}`],
    [`{"credentials":{"a":["${CANARY}"],"b":"}"},"n":1}`, `{"credentials":${R},"n":1}`],
    [`{"body":"{\\"password\\":\\"${CANARY}\\",\\"n\\":1}"}`, `{"body":"{\\"password\\":\\"${R}\\",\\"n\\":1}"}`],
    [`{"password":"${CANARY}`, `{"password":"${R}`],
    [`[{"name":"password","value":"${CANARY}"}]`, `[{"name":"password","value":"${R}"}]`],
    [`[{"value":"${CANARY}","name":"password"}]`, `[{"value":"${R}","name":"password"}]`],
    [`[["user","kim"],["password","${CANARY}"]]`, `[["user","kim"],["password","${R}"]]`],
    [`localStorage.setItem('token', '${CANARY}')`, `localStorage.setItem('token', '${R}')`],
    [`console.log('token:', '${CANARY}', 1)`, `console.log('token:', '${R}', 1)`],
    [`send("password=" + "${CANARY}")`, `send("password=" + "${R}")`],
    [`<login><password>${CANARY}</password><n>1</n></login>`, `<login><password>${R}</password><n>1</n></login>`],
    [`<input name="csrf_token" value="${CANARY}"><p>x`, `<input name="csrf_token" value="${R}"><p>x`],
    [`<input value="${CANARY}" type="password">`, `<input value="${R}" type="password">`],
    [
      `--b\r\ncontent-disposition: form-data; name="password"\r\n\r\n${CANARY}\r\nand\r\n--b--`,
      `--b\r\ncontent-disposition: form-data; name="password"\r\n\r\n${R}\r\n--b--`,
    ],
    [`Cookie: a=${CANARY}; b=${CANARY}\nHost: a.test`, `Cookie: ${R}\nHost: a.test`],
    [`curl -H 'Authorization: Bearer ${CANARY}' x`, `curl -H 'Authorization: ${R}`],
    [`sent Bearer ${CANARY}abcdefgh, ok`, `sent Bearer ${R}, ok`],
    [`sent Basic ${Buffer.from(`kim:${CANARY}`).toString('base64')} ok`, `sent Basic ${R} ok`],
    [`got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl ok`, `got ${R} ok`],
    [`card_cvv=${CANARY}&a=1`, `card_cvv=${R}&a=1`],
    [`password[]=${CANARY}&password%5B%5D=${CANARY}&password[0]=${CANARY}&a=1`, `password[]=${R}&password%5B%5D=${R}&password[0]=${R}&a=1`],
    [`{"otp":["${CANARY}"],"n":1}`, `{"otp":${R},"n":1}`],
    [`{"pwd":{"value":"${CANARY}"},"n":1}`, `{"pwd":${R},"n":1}`],
    [`{"tokens":["${CANARY}"],"refreshTokens":"${CANARY}","n":1}`, `{"tokens":${R},"refreshTokens":"${R}","n":1}`],
    [`<meta name=csrf-token content=${CANARY}><p>x`, `<meta name=csrf-token content=${R}><p>x`],
    [`<meta name="csrf-token" content="${CANARY}"><p>x`, `<meta name="csrf-token" content="${R}"><p>x`],
    [`<input type=password value=${CANARY}><p>x`, `<input type=password value=${R}><p>x`],
    [`<input value=${CANARY} type=password><p>x`, `<input value=${R} type=password><p>x`],
    [`{"url":"https:\\/\\/kim:${CANARY}@a.test\\/x"}`, `{"url":"https:\\/\\/${R}@a.test\\/x"}`],
    [`see //kim:${CANARY}@a.test/x`, `see //${R}@a.test/x`],
    [`login with password: ${CANARY} failed`, `login with password: ${R} failed`],
    [`data=%7B%22password%22%3A%22${CANARY}%22%2C%22n%22%3A1%7D&x=1`, `data=%7B%22password%22%3A%22${R}%22%2C%22n%22%3A1%7D&x=1`],
  ])('%s', (text, clean) => {
    expect(secrets.scrub(text)).toBe(clean)
    expect(secrets.scrub(text)).not.toContain(CANARY)
  })
})

test.each('newPwd loginPw cardPin pinCode smsCode verificationCode twoFactorCode oneTimeCode user_otp creditCard contraseña senha kennwort smsOtp2'.split(' '))(
  'the name of a secret in JSON and in a form: %s',
  (name) => {
    expect(secrets.scrub(`{"${name}":"${CANARY}","n":1}`)).toBe(`{"${name}":"${R}","n":1}`)
    expect(secrets.scrub(new URLSearchParams({ [name]: CANARY, n: '1' }).toString())).toBe(`${new URLSearchParams({ [name]: '' }).toString()}${R}&n=1`)
  },
)

test('names of fields that people fill in with secrets are names of secrets in texts, too', () => {
  expect([...FIELD_PARTS.split(' '), ...FIELD_WORDS.split(' ')].filter((word) => secretKind(word) === undefined)).toEqual([])
})

test.each([
  ['ghp_', 'a1'.repeat(18)],
  ['sk-proj-', 'a1'.repeat(20)],
  ['xoxb-', '1234567890-abcdefghij'],
  ['AKIA', 'ABCDEFGHIJ234567'],
  ['AIza', 'a1_-B'.repeat(7)],
  ['glpat-', 'a1b2c3d4e5f6g7h8i9j0'],
  // Our own: API keys, and codes, access tokens and refresh tokens of OAuth.
  ['cob_', '0f'.repeat(20)],
  ['cob_oc_', '0f'.repeat(32)],
  ['cob_at_', '0f'.repeat(32)],
  ['cob_rt_', '0f'.repeat(32)],
])('tokens have forms of their own: %s', (head, rest) => expect(secrets.scrub(`got ${head}${rest} today`)).toBe(`got ${R} today`))

test.each([
  'https://a.test/search?q=tokens&page=2#top',
  '{"max_tokens":100,"author":"kim","hasPassword":true,"token":null}',
  'Uncaught SyntaxError: Unexpected token < in JSON at position 0',
  'basic information about the session, see https://a.test/a@b',
  'GET /status?code=200 answered in 12 ms',
  '{"code":"E_FAILED","message":"the key is missing"}',
  '{"prompt_tokens":12,"total_tokens":30,"mfa_enabled":true,"mfaType":"sms","session":{"user":"kim"}}',
  'see //a.test/x@y and // a note, and sk-fading-circle-container',
  '<input type=text value=x> and ?field=token&value=5',
])('other text stays as it is: %s', (text) => {
  expect(secrets.scrub(text)).toBe(text)
})

test('headers of logins and cookies have no value; addresses in other headers lose their secrets', () => {
  const headers = {
    Authorization: `Bearer ${CANARY}`,
    'Proxy-Authorization': `Basic ${CANARY}`,
    Cookie: `a=${CANARY}`,
    'set-cookie': `a=${CANARY}`,
    'X-Api-Key': CANARY,
    'x-csrf-token': CANARY,
    'Ocp-Apim-Subscription-Key': CANARY,
    'X-Auth-Key': CANARY,
    'DD-APPLICATION-KEY': CANARY,
    'X-Master-Key': CANARY,
    'X-Functions-Key': CANARY,
    'X-Session': CANARY,
    'X-Sid': CANARY,
    'X-GitHub-OTP': CANARY,
    'Sec-WebSocket-Protocol': `graphql-ws, ${CANARY}`,
    'X-RateLimit-Remaining-Tokens': '1500',
    Referer: `https://a.test/?token=${CANARY}`,
    Accept: '*/*',
    'Access-Control-Allow-Headers': 'authorization, x-api-key',
  }
  const { headers: clean, isCut } = scrubHeaders(headers, secrets)
  expect(isCut).toBe(false)
  expect(JSON.stringify(clean)).not.toContain(CANARY)
  expect(clean).toMatchObject({
    Authorization: R,
    'Sec-WebSocket-Protocol': `graphql-ws, ${R}`,
    'X-RateLimit-Remaining-Tokens': '1500',
    Referer: `https://a.test/?token=${R}`,
    Accept: '*/*',
    'Access-Control-Allow-Headers': 'authorization, x-api-key',
  })
})

test('headers are bounded: how many, how long each, and all together', () => {
  const many = scrubHeaders(Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`x-${index}`, 'a'])), secrets)
  expect([Object.keys(many.headers).length, many.isCut]).toEqual([64, true])
  const long = scrubHeaders(Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`x-${index}`, 'a'.repeat(10_000)])), secrets)
  expect([long.headers['x-0']!.length, long.isCut]).toEqual([2048, true])
  expect(JSON.stringify(long.headers).length).toBeLessThan(20_000)
})

test('headers that have only secrets are bounded by what is looked at', () => {
  const given = Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`x-${index}`, `password=${'a'.repeat(3_990)}`]))
  const { headers, isCut } = scrubHeaders(given, secrets)
  expect([new Set(Object.values(headers)), isCut]).toEqual([new Set([`password=${R}`]), true])
  expect(Object.keys(headers).length).toBeLessThan(10)
})

test('addresses that are escaped more often each time take no longer than others', () => {
  const slashes = Array.from({ length: 120 }, (_, level) => `%${'25'.repeat(level)}2F`.repeat(2)).join('')
  expect(secrets.scrub(`${slashes}kim:${CANARY}@a.test`)).toBe(`%2F%2F${R}@a.test`)
  const text = `${slashes}${'x'.repeat(35_000)}`
  const before = process.cpuUsage()
  for (let times = 0; times < 50; times++) secrets.scrub(text)
  const { user, system } = process.cpuUsage(before)
  expect((user + system) / 1000).toBeLessThan(600)
})

test.each(['token:', 'password', 'the password = ', '"apiKey": ', 'Authorization:'])('a text may announce a secret: %s', (text) =>
  expect(announcesSecret(text)).toBe(true),
)
test.each(['the token', 'name:', ''])('and often does not: %s', (text) => expect(announcesSecret(text)).toBe(false))

test('the places of secrets in a format', () => {
  expect([...announcedPlaces('%s: token is %s, 100%% of %d, password="%s"')]).toEqual([1, 3])
  expect([...announcedPlaces('%s and %d')]).toEqual([])
})

/** Values that people and programs use as passwords; a value that consists of parts of the mark itself cannot be distinguished from it. */
const value = fc.string({ unit: 'binary', minLength: 6, maxLength: 40 }).filter((text) => text.trim().length >= 6 && !'[redacted][redacted]'.includes(text))
const around = fc.string({ maxLength: 20 })

/** The forms in which a page may pass a value on. */
const FORMS: Record<string, (value: string) => string> = {
  'as it is': (text) => text,
  'in JSON': (text) => JSON.stringify(text).slice(1, -1),
  'in JSON in JSON': (text) => JSON.stringify(JSON.stringify(text)).slice(3, -3),
  'URL-encoded': encodeURIComponent,
  'in a form': (text) => new URLSearchParams([['', text]]).toString().slice(1),
  'in a query': (text) => new URL(`http://a.test/?a=${encodeURIComponent(text)}`).search.slice(3),
  'in base64': (text) => Buffer.from(text).toString('base64'),
  'in base64url': (text) => Buffer.from(text).toString('base64url'),
}

test.each(Object.entries(FORMS))('a learned value never survives %s', (_, form) => {
  fc.assert(
    fc.property(value, around, around, (raw, before, after) => {
      const text = raw.toWellFormed()
      const ours = makeSecrets()
      ours.learn(text)
      const shown = ours.scrub(before + form(text) + after)
      expect(shown).not.toContain(form(text))
      expect(shown).not.toContain(text)
    }),
    { numRuns: 300 },
  )
})

test('a learned value never survives in the base64 of a longer text', () => {
  fc.assert(
    fc.property(value, around, around, (raw, before, after) => {
      const ours = makeSecrets()
      ours.learn(raw)
      const shown = ours.scrub(`x ${Buffer.from(before + raw.toWellFormed() + after).toString('base64')} y`)
      // The rest is a mark, or characters that are shared with neighbours.
      expect(shown).toContain(R)
    }),
    { numRuns: 300 },
  )
})

test('of one source the last 64 learned values are remembered, and no source has those of another forgotten', () => {
  const ours = makeSecrets()
  ours.learn('the-real-one', { source: 'page' })
  for (let frame = 0; frame < 20; frame++)
    for (let count = 0; count <= 64; count++) ours.learn(`learned-${frame}-${String(count).padStart(3, '0')}`, { source: `frame ${frame}` })
  expect(ours.scrub('the-real-one learned-19-000 learned-19-064')).toBe(`${R} learned-19-000 ${R}`)
})

test('stages of typing do not push out what was learned before, and of a field that a script changes the last values count', () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const { learn, scrub } = makeSecrets()
  learn('the-real-one', { source: 'page', field: 1 })
  for (let count = 100; count < 300; count++) learn(`typed-${count}`, { stage: '', source: 'page', field: 2 })
  expect(scrub('the-real-one typed-298 typed-299')).toBe([R, R, R].join(' '))
  vi.advanceTimersByTime(20_000)
  expect(scrub('the-real-one typed-290 typed-298 typed-299')).toBe(`${R} typed-290 ${R} ${R}`)
})

test('a text that was clean is cleaned of what was learned since, also where it was cut', () => {
  const ours = makeSecrets()
  const before = ours.version
  const clean = ours.scrubCut(`https://a.test/hunter22/${'x'.repeat(40)}/hunter22`, 70)
  ours.learn('hunter22')
  expect(ours.version).not.toBe(before)
  expect(ours.scrubAgain(clean).text).not.toContain('hunt')
})

test('what was learned of one caller is forgotten for the next', () => {
  const ours = makeSecrets()
  ours.learn('hunter22')
  expect(ours.scrub('hunter22')).toBe(R)
  ours.forget()
  expect(ours.scrub('hunter22')).toBe('hunter22')
})

test.each([
  ['  hunter22 ', 'hunter22'],
  ['4111 1111 1111 1111', '4111111111111111'],
  ['4111111111111111', '4111-1111-1111-1111'],
  ['p\u00e4ssw', 'pa\u0308ssw'],
  ['p\u00e4ssw', 'p%E4ssw'],
  ['Hunter22', 'HUNTER22'],
  ['p\u00e4ssw', 'p%25C3%25a4ssw'],
  ['a"b\\c<d', String.raw`a\"b\\\\c<d`],
  ['a&b<c', 'a&amp;b&lt;c'],
  ['\u043f\u0430\u0440\u043e\u043b', '%u043F%u0430%u0440%u043E%u043B'],
])('a learned value is found as pages change it: %j as %j', (value, form) => {
  const ours = makeSecrets()
  ours.learn(value)
  expect(ours.scrub(`a ${form} b`)).toBe(`a ${R} b`)
})

test('the three digits of a card are found where they stand alone', () => {
  const ours = makeSecrets()
  ours.learn('737')
  expect(ours.scrub('code 737, 1737 7371 0.737 {"a":"737"}')).toBe(`code ${R}, 1737 7371 0.737 {"a":"${R}"}`)
})

const name = fc.constantFrom('password', 'accessToken', 'client_secret', 'X-Api-Key', 'session')
const mark = fc.stringMatching(/^[A-Za-z\d]{10,20}$/)
/** fast-check repeats itself, and puts names such as isPrototypeOf into all strings: another one can begin like the mark. */
const isOnce = (text: string, start: string): boolean => text.split(start).length === 2
const json = (inner: fc.Arbitrary<object>) => fc.tuple(fc.jsonValue(), inner, fc.jsonValue()).map(([a, b, c]) => JSON.stringify({ a, b: [b], c }, null, 1))

test('a secret field of JSON never survives, wherever the text is cut', () => {
  const texts = fc
    .tuple(name, mark, fc.string(), fc.string())
    .chain(([key, secret, before, after]) => fc.tuple(json(fc.constant({ [key]: before + secret + after })), fc.constant(secret), fc.nat(100)))
  fc.assert(
    fc.property(texts, ([text, secret, cut]) => {
      fc.pre(isOnce(text, secret.slice(0, 6)))
      const at = text.indexOf(secret) + (cut % (secret.length + 1))
      for (const part of [text, text.slice(0, at), JSON.stringify(text)])
        expect(secrets.scrub(part)).not.toContain(secret.slice(0, Math.max(6, cut % secret.length)))
    }),
    { numRuns: 500 },
  )
})

test('a text before it that looks like the tag of a secret hides no secret field', () => {
  const text = JSON.stringify({ a: '<Pw', session: '8z0nZk94L3Ru', b: '>x', after: 1 })
  expect(secrets.scrub(text)).not.toContain('8z0nZk')
  expect(secrets.scrub('<password token="8z0nZk94L3Ru" type="x">hunter22</password>')).toBe('<password token="[redacted]" type="x">[redacted]</password>')
})

test('a secret field of a form never survives, wherever the text is cut', () => {
  fc.assert(
    fc.property(name, fc.string({ unit: 'binary' }), mark, fc.string({ unit: 'binary' }), fc.string(), fc.nat(30), (key, before, secret, after, other, cut) => {
      const text = new URLSearchParams([
        ['other', other],
        [key, before.toWellFormed() + secret + after.toWellFormed()],
        ['last', other],
      ]).toString()
      fc.pre(isOnce(text, secret.slice(0, 8)))
      const at = text.indexOf(secret) + cut
      for (const part of [text, text.slice(0, at), encodeURIComponent(text)]) expect(secrets.scrub(part)).not.toContain(secret.slice(0, 8))
    }),
    { numRuns: 500 },
  )
})

test('no part of a learned value is left where a text is cut', () => {
  fc.assert(
    fc.property(fc.nat(64), (at) => {
      const ours = makeSecrets()
      ours.learn('0123456789abcdefghij')
      const { text, isCut } = ours.scrubCut(`${'x'.repeat(at)}0123456789abcdefghij${'y'.repeat(200)}`, 32)
      expect(isCut).toBe(true)
      expect(text).not.toContain('0123')
      expect(Buffer.byteLength(text)).toBeLessThanOrEqual(32)
    }),
  )
})

test('text is cut to bytes at whole characters', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 100 }), fc.nat(100), (text, most) => {
      const cut = cutText(text, most)
      expect(Buffer.byteLength(cut.text)).toBeLessThanOrEqual(most)
      expect(text.startsWith(cut.text)).toBe(true)
      expect(cut.isCut).toBe(cut.text !== text)
    }),
  )
})

test('the stages in which a secret was typed are forgotten after a while, the secret and what is one of its own are not', () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const { learn, scrub } = makeSecrets()
  learn('hunter')
  learn('orde', { stage: '' })
  learn('order', { stage: 'orde' })
  learn('order66', { stage: 'order' })
  learn('hunters', { stage: 'hunter' })
  expect(scrub('an order of hunters')).not.toMatch(/order|hunter/)
  vi.advanceTimersByTime(20_000)
  expect(scrub('an order of a hunter')).toMatch(/^an order of a (?!hunter)/)
  expect(scrub('an order66')).not.toContain('order66')
})

test('any text is judged without an exception, and long ones are cut', () => {
  fc.assert(fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (text) => typeof secrets.scrub(text) === 'string'))
  expect(secrets.scrub('x '.repeat(100_000)).length).toBeLessThanOrEqual(64 * 1024)
})
