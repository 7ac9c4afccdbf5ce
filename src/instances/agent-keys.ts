// The keys of one instance whose agent is reached by TCP: a certificate that the control plane pins, and the credential by which the agent knows it.
import { KeyObject, randomBytes, webcrypto } from 'node:crypto'
import type { ServerKeys } from '../base/access.ts'

/** 256 bits: never guessed, and never typed by anybody. */
const CREDENTIAL_BYTES = 32
const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
/** It is pinned and dies with its instance, so it has no dates: clocks of two machines may differ. The last date is RFC 5280's for "never". */
const ALWAYS = { notBefore: new Date(0), notAfter: new Date('9999-12-31T23:59:59Z') }

/** What the agent gets, and what the control plane needs to reach it. */
export interface MadeKeys {
  server: ServerKeys
  pinned: { certificate: string; credential: string }
}

/** Makes the keys of an instance; takes some 5 ms. */
export async function makeAgentKeys(): Promise<MadeKeys> {
  // The package needs the polyfill. Both are loaded here, because a service whose agents have Unix sockets needs neither.
  await import('reflect-metadata')
  const { X509CertificateGenerator } = await import('@peculiar/x509')
  const keys = await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])
  const made = await X509CertificateGenerator.createSelfSigned({ serialNumber: '01', name: 'CN=cob-agent', ...ALWAYS, keys, signingAlgorithm: ALGORITHM })
  const certificate = made.toString('pem')
  const credential = randomBytes(CREDENTIAL_BYTES).toString('base64url')
  const key = KeyObject.from(keys.privateKey).export({ type: 'pkcs8', format: 'pem' }).toString()
  return { server: { key, certificate, credential }, pinned: { certificate, credential } }
}
