// Converts one-time passwords from the forms of stores into an otpauth:// URI or a base32 secret.

interface OneTimePassword {
  /** Base32. */
  secret: string
  period?: string | undefined
  digits?: string | undefined
  algorithm?: string | undefined
}

/** A plain secret stays one; with settings it becomes a URI. */
function otpauth({ secret, ...settings }: OneTimePassword): string {
  const plain = secret.replace(/[\s=-]/g, '').toUpperCase()
  const given = Object.entries(settings).filter((entry): entry is [string, string] => entry[1] !== undefined)
  if (given.length === 0) return plain
  return `otpauth://totp/item?${new URLSearchParams({ secret: plain, ...Object.fromEntries(given) }).toString()}`
}

/** The content of a field for one-time passwords: a URI, `key=…&step=…&size=…`, or a secret. Undefined for anything else. */
export function readOtp(text: string): string | undefined {
  const value = text.trim()
  if (/^otpauth:\/\//i.test(value)) return value
  const query = new URLSearchParams(value)
  const key = query.get('key')
  if (key) return otpauth({ secret: key, period: query.get('step') ?? undefined, digits: query.get('size') ?? undefined })
  return /^[a-z2-7\s-]+=*$/i.test(value) ? otpauth({ secret: value }) : undefined
}
