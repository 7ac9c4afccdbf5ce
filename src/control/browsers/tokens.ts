// Tokens in session URLs: each opens one session, and is worth nothing once that session has ended.
import { SignJWT, jwtVerify } from 'jose'
import { hkdfSync } from 'node:crypto'
import { fault } from '../../http/fault.ts'

const AUDIENCE = 'cob-session'

export interface SessionTokens {
  /** The token of a session; the same each time, so that its URLs never change. */
  sign(sessionId: string, host: string): Promise<string>
  /** @throws 401 unless `token` opens `sessionId`. That the session still lives is the caller's to check. */
  check(token: unknown, sessionId: string): Promise<void>
}

/** Tokens signed with a key derived from the service's secret. They carry no expiry: they live as long as their session. */
export function sessionTokens(secretKey: Buffer): SessionTokens {
  const key = new Uint8Array(hkdfSync('sha256', secretKey, '', AUDIENCE, 32))
  return {
    // Clients read `session.fqdn` from the payload to find the session's host.
    sign: (sessionId, host) =>
      new SignJWT({ session: { id: sessionId, fqdn: host } }).setProtectedHeader({ alg: 'HS256' }).setAudience(AUDIENCE).setSubject(sessionId).sign(key),
    async check(token, sessionId) {
      const payload =
        typeof token === 'string'
          ? await jwtVerify(token, key, { audience: AUDIENCE, algorithms: ['HS256'] }).then(
              (verified) => verified.payload,
              () => undefined,
            )
          : undefined
      if (payload?.sub !== sessionId) throw fault.unauthorized("the URL's token (jwt) is missing or is not this session's")
    },
  }
}
