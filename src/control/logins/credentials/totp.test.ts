// One-time codes: the test vectors of RFC 6238, and secrets in the forms of sites.
import { expect, describe, test } from 'vitest'
import { readTotp, totpCode, type TotpSpec } from './totp.ts'

/** RFC 6238, appendix B: the keys of its reference implementation (1234567890, repeated to 20, 32 and 64 bytes), and the codes of 8 digits. */
const DIGITS = 'GEZDGNBVGY3TQOJQ'
const SECRETS = { SHA1: DIGITS.repeat(2), SHA256: `${DIGITS.repeat(3)}GEZA`, SHA512: `${DIGITS.repeat(6)}GEZDGNA` }
const VECTORS: [number, string, string, string][] = [
  [59, '94287082', '46119246', '90693936'],
  [1111111109, '07081804', '68084774', '25091201'],
  [1111111111, '14050471', '67062674', '99943326'],
  [1234567890, '89005924', '91819424', '93441116'],
  [2000000000, '69279037', '90698825', '38618901'],
  [20000000000, '65353130', '77737706', '47863826'],
]

describe.each(['SHA1', 'SHA256', 'SHA512'] as const)('%s', (algorithm) => {
  test.each(VECTORS)('gives the code of RFC 6238 for second %i', (second, ...codes) => {
    const totp = readTotp(SECRETS[algorithm], { totp_algorithm: algorithm, totp_digits: 8 })
    const code = codes[Object.keys(SECRETS).indexOf(algorithm)]
    expect(totpCode(totp, new Date(second * 1000))).toEqual({ code, expiresAt: new Date((Math.floor(second / 30) + 1) * 30_000) })
  })
})

test('a code holds until its period is over, and the next one follows at once', () => {
  const totp = readTotp(SECRETS.SHA1, { totp_period: 60 })
  const at = (ms: number) => totpCode(totp, new Date(ms))
  expect(at(119_999)).toEqual(at(60_000))
  expect(at(60_000).expiresAt).toEqual(new Date(120_000))
  expect(at(120_000).expiresAt).toEqual(new Date(180_000))
  expect(at(120_000).code).not.toBe(at(119_999).code)
})

const PLAIN = { secret: 'JBSWY3DPEHPK3PXP', algorithm: 'SHA1', digits: 6, period: 30 }

test.each([
  'JBSWY3DPEHPK3PXP',
  'jbsw y3dp ehpk 3pxp',
  ' JBSW-Y3DP-EHPK-3PXP====\n',
  'otpauth://totp/Site:kim@site.test?secret=JBSWY3DPEHPK3PXP&issuer=Site',
  'otpauth://totp/Site%3Akim?secret=jbsw%20y3dp+ehpk-3pxp',
  'OTPAUTH://TOTP/x?SECRET=JBSWY3DPEHPK3PXP&algorithm=sha1&digits=6&period=30',
])('the secret %j is read as it is meant', (text) => {
  expect(readTotp(text, {})).toEqual(PLAIN)
})

test('what an address says comes before the fields beside it, and what it leaves out does not', () => {
  const given = { totp_algorithm: 'SHA512', totp_digits: 8, totp_period: 60 } as const
  expect(readTotp('otpauth://totp/x?secret=JBSWY3DPEHPK3PXP&digits=7&algorithm=SHA-256', given)).toEqual({
    ...PLAIN,
    algorithm: 'SHA256',
    digits: 7,
    period: 60,
  })
})

test('a new secret keeps how codes are made; a new address does not', () => {
  const before: TotpSpec = { secret: 'A'.repeat(16), algorithm: 'SHA256', digits: 8, period: 60 }
  expect(readTotp('JBSWY3DPEHPK3PXP', { totp_digits: 7 }, before)).toEqual({ secret: PLAIN.secret, algorithm: 'SHA256', digits: 7, period: 60 })
  expect(readTotp('otpauth://totp/x?secret=JBSWY3DPEHPK3PXP', {}, before)).toEqual(PLAIN)
})

test.each([
  ['no base32: 0, 1, 8 and 9', 'JBSWY3DPEHPK3PX1'],
  ['other letters', 'JBSWY3DPEHPKÄPXP'],
  ['too short', 'JBSWY3DPEHPK3PX'],
  ['too long', 'A'.repeat(129)],
  ['nothing but padding', '================'],
  ['codes by counter', 'otpauth://hotp/x?secret=JBSWY3DPEHPK3PXP&counter=1'],
  ['no address', 'otpauth:JBSWY3DPEHPK3PXP'],
  ['an address without a secret', 'otpauth://totp/x?issuer=Site'],
  ['an address with a bad secret', 'otpauth://totp/x?secret=JBSWY3DP'],
  ['digits out of range', 'otpauth://totp/x?secret=JBSWY3DPEHPK3PXP&digits=40'],
  ['digits that are no number', 'otpauth://totp/x?secret=JBSWY3DPEHPK3PXP&digits=0x8'],
  ['a period of nothing', 'otpauth://totp/x?secret=JBSWY3DPEHPK3PXP&period=0'],
  ['another algorithm', 'otpauth://totp/x?secret=JBSWY3DPEHPK3PXP&algorithm=MD5'],
])('a secret with %s is refused by name, and not repeated', (_, text) => {
  let refusal: Error | undefined
  try {
    readTotp(text, {})
  } catch (error) {
    refusal = error as Error
  }
  expect(refusal).toMatchObject({ code: 'bad_request', message: expect.stringMatching(/^totp_secret: /) })
  expect(refusal!.message).not.toMatch(/JBSW|AAAA|Site/)
})
