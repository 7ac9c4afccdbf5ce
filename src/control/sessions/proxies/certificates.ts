// The certificates that a caller gives with a proxy.
import { X509Certificate } from 'node:crypto'

const BLOCK = /-----BEGIN CERTIFICATE-----[\sA-Za-z0-9+/=]*-----END CERTIFICATE-----/g

/** What is wrong with a bundle of certificates in PEM; undefined when it is one. Comments between certificates are allowed, keys are not. */
export function problemOfBundle(pem: string): string | undefined {
  const blocks = pem.match(BLOCK) ?? []
  if (blocks.length === 0) return 'must hold at least one certificate in PEM (-----BEGIN CERTIFICATE-----)'
  if (/-----(BEGIN|END)/.test(pem.replaceAll(BLOCK, ''))) return 'must hold certificates only'
  for (const [at, block] of blocks.entries()) {
    const problem = problemOf(block)
    if (problem) return `has a certificate (the ${ordinal(at + 1)}) that ${problem}`
  }
  return undefined
}

function problemOf(block: string): string | undefined {
  try {
    return new X509Certificate(block).ca ? undefined : 'is not one of an authority (CA)'
  } catch {
    return 'cannot be read'
  }
}

const ordinal = (n: number): string => `${n}${n % 100 >= 11 && n % 100 <= 13 ? 'th' : (['th', 'st', 'nd', 'rd'][n % 10] ?? 'th')}`
