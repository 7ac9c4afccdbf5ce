// The keys of one instance whose agent is reached by TCP: a certificate that the control plane pins, and the credential by which the agent recognizes the
// control plane.
import { randomBytes } from 'node:crypto'
import type { ServerKeys } from '../base/access.ts'

/** 256 bits: nobody can guess it, and nobody types it. */
const CREDENTIAL_BYTES = 32
/** The certificate is pinned and used for one instance only, so it has no dates: clocks of two machines may differ. The last date is RFC 5280's for "never". */
const ALWAYS = { notBeforeDate: new Date(0), notAfterDate: new Date('9999-12-31T23:59:59Z') }

/** The agent's part, and the control plane's part to reach it. */
export interface MadeKeys {
  server: ServerKeys
  pinned: { certificate: string; credential: string }
}

/** Makes the keys of an instance; takes some 10 ms. */
export async function makeAgentKeys(): Promise<MadeKeys> {
  // Loaded here, because a service whose agents have Unix sockets does not need it.
  const { generate } = await import('selfsigned')
  const made = await generate([{ name: 'commonName', value: 'cob-agent' }], { keyType: 'ec', curve: 'P-256', algorithm: 'sha256', ...ALWAYS })
  const credential = randomBytes(CREDENTIAL_BYTES).toString('base64url')
  return { server: { key: made.private, certificate: made.cert, credential }, pinned: { certificate: made.cert, credential } }
}
