// Time-based one-time codes (RFC 6238): parses a secret, and computes the code of a moment.
import { createHmac } from 'node:crypto'
import { fault } from '../../../http/fault.ts'
import { Digits, Period, TOTP_ALGORITHMS } from './contract.ts'

export interface TotpSpec {
  /** Base32 in upper case, without padding. */
  secret: string
  algorithm: (typeof TOTP_ALGORITHMS)[number]
  digits: number
  period: number
}

/** The settings in a caller's secret. */
interface Given {
  totp_algorithm?: TotpSpec['algorithm'] | undefined
  totp_digits?: number | undefined
  totp_period?: number | undefined
}

const DEFAULTS = { algorithm: 'SHA1', digits: 6, period: 30 } as const
const MIN_SECRET = 16
const MAX_SECRET = 128
const FIELD = 'totp_secret'

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'

/** The code of a moment, and the time when the next one replaces it. */
export function totpCode({ secret, algorithm, digits, period }: TotpSpec, now: Date): { code: string; expiresAt: Date } {
  const step = Math.floor(now.getTime() / 1000 / period)
  const counter = Buffer.alloc(8)
  counter.writeBigUInt64BE(BigInt(step))
  const digest = createHmac(algorithm, keyOf(secret)).update(counter).digest()
  // RFC 4226, 5.3: four bytes at the offset in the last half byte, without their sign bit.
  const number = digest.readUInt32BE(digest.at(-1)! & 0xf) & 0x7fffffff
  return { code: String(number % 10 ** digits).padStart(digits, '0'), expiresAt: new Date((step + 1) * period * 1000) }
}

/** The bytes of base32; remaining bits that fill no byte are dropped. */
function keyOf(secret: string): Buffer {
  const bits = Array.from(secret, (letter) => BASE32.indexOf(letter).toString(2).padStart(5, '0')).join('')
  return Buffer.from(bits.match(/.{8}/g)!.map((byte) => parseInt(byte, 2)))
}

/**
 * The meaning of a secret and the fields beside it. A plain new secret keeps the algorithm, digits and period of `before` unless they are given; an address
 * does not. @throws 400, never with the secret in it
 */
export function readTotp(text: string, given: Given, before?: TotpSpec): TotpSpec {
  const isAddress = /^\s*otpauth:/i.test(text)
  const said = isAddress ? ofAddress(text) : { secret: text }
  const usual = before !== undefined && !isAddress ? before : DEFAULTS
  return {
    secret: base32(said.secret),
    algorithm: said.algorithm ?? given.totp_algorithm ?? usual.algorithm,
    digits: said.digits ?? given.totp_digits ?? usual.digits,
    period: said.period ?? given.totp_period ?? usual.period,
  }
}

/** Sites show secrets in groups and in either case of letters. */
function base32(text: string): string {
  const secret = text.replace(/[\s-]/g, '').replace(/=+$/, '').toUpperCase()
  if (!/^[A-Z2-7]*$/.test(secret)) throw fault.field(FIELD, 'must be base32 (letters and the digits 2 to 7), or an otpauth://totp/ address')
  if (secret.length < MIN_SECRET || secret.length > MAX_SECRET)
    throw fault.field(FIELD, `must have ${MIN_SECRET} to ${MAX_SECRET} base32 characters; this one has ${secret.length}`)
  return secret
}

/** https://github.com/google/google-authenticator/wiki/Key-Uri-Format */
function ofAddress(text: string): Partial<TotpSpec> & { secret: string } {
  const url = URL.canParse(text.trim()) ? new URL(text.trim()) : undefined
  if (url?.host.toLowerCase() !== 'totp') throw fault.field(FIELD, 'must be an otpauth://totp/ address; other kinds of codes are not possible')
  const said = new Map([...url.searchParams].map(([name, value]) => [name.toLowerCase(), value.trim()]))
  const secret = said.get('secret')
  if (!secret) throw fault.field(FIELD, 'has no secret in its address')
  const number = (name: string, schema: typeof Digits): number | undefined => {
    const value = said.get(name)
    if (value === undefined) return undefined
    const read = schema.safeParse(/^\d{1,6}$/.test(value) ? Number(value) : undefined)
    if (!read.success) throw fault.field(FIELD, `has ${name} in its address that must be from ${schema.minValue} to ${schema.maxValue}`)
    return read.data
  }
  const wanted = said.get('algorithm')?.toUpperCase().replace('-', '')
  const algorithm = TOTP_ALGORITHMS.find((name) => name === wanted)
  if (wanted !== undefined && !algorithm) throw fault.field(FIELD, `has an algorithm in its address that must be one of ${TOTP_ALGORITHMS.join(', ')}`)
  const [digits, period] = [number('digits', Digits), number('period', Period)]
  return { secret, ...(algorithm && { algorithm }), ...(digits !== undefined && { digits }), ...(period !== undefined && { period }) }
}
