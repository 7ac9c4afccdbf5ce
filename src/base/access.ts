// Authentication of servers in a sandbox that are reached by TCP. Such a server has one client, the control plane, which sends the server's own credential in a
// separate header.
import type { IncomingMessage } from 'node:http'

/** Never `authorization`: that header belongs to the caller, whose requests pass through. */
export const CREDENTIAL_HEADER = 'cob-agent-credential'

/** The keys of such a server: its private key and its certificate, both in PEM, and the credential of its client. */
export interface ServerKeys {
  key: string
  certificate: string
  credential: string
}

/** The environment variable with these keys, as JSON. The sandbox hides it from other programs (instances/local/enclose.pl). */
export const KEYS_VARIABLE = 'COB_KEYS'

/**
 * A line for /bin/sh that reads the keys from descriptor 3, if it is open, and exports them. Run it after everything else was started and right before
 * the server's program replaces the shell: another process that the shell starts later would have them in its memory, where programs could read them.
 */
export const READ_KEYS = `{ IFS= read -r ${KEYS_VARIABLE} <&3; } 2>/dev/null; exec 3<&-; export ${KEYS_VARIABLE}`

/** Takes the keys out of the environment, so that no program started later inherits them; undefined for a server on a Unix socket. */
export function takeKeys(): ServerKeys | undefined {
  const text = process.env[KEYS_VARIABLE]
  delete process.env[KEYS_VARIABLE]
  return text ? (JSON.parse(text) as ServerKeys) : undefined
}

/** Whether a request carries the credential. Removes it from the request: requests that an agent passes to a page's server must not carry it. */
export function takeCredential(request: IncomingMessage, { credential }: ServerKeys): boolean {
  const { createHash, timingSafeEqual } = process.getBuiltinModule('node:crypto')
  const digest = (text: string) => createHash('sha256').update(text).digest()
  const sent = request.headers[CREDENTIAL_HEADER]
  delete request.headers[CREDENTIAL_HEADER]
  const { rawHeaders } = request
  for (let at = rawHeaders.length - 2; at >= 0; at -= 2) if (rawHeaders[at]!.toLowerCase() === CREDENTIAL_HEADER) rawHeaders.splice(at, 2)
  return typeof sent === 'string' && timingSafeEqual(digest(sent), digest(credential))
}
