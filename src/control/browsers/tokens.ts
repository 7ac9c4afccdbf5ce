// Tokens in session URLs. Each opens one session, and is invalid once that session has ended.
import { SignJWT, jwtVerify } from 'jose'
import { hkdfSync } from 'node:crypto'
import { isId } from '../../base/ids.ts'
import { fault } from '../../http/fault.ts'

const AUDIENCE = 'cob-session'

export interface SessionTokens {
  /** The token of a session. Always the same, so that the session's URLs never change. */
  sign(sessionId: string, host: string): Promise<string>
  /**
   * @throws 401 unless `token` opens the session `idOrName`. The caller must check that the session still lives. `idOf` finds the live session of
   * a name.
   */
  check(token: unknown, idOrName: string, idOf: (name: string) => Promise<string | undefined>): Promise<void>
}

/** Tokens signed with a key derived from the service's secret. They have no expiry: they are valid as long as their session lives. */
export function sessionTokens(secretKey: Buffer): SessionTokens {
  const key = new Uint8Array(hkdfSync('sha256', secretKey, '', AUDIENCE, 32))
  return {
    // Clients read `session.fqdn` from the payload to find the session's host.
    sign: (sessionId, host) =>
      new SignJWT({ session: { id: sessionId, fqdn: host } }).setProtectedHeader({ alg: 'HS256' }).setAudience(AUDIENCE).setSubject(sessionId).sign(key),
    async check(token, idOrName, idOf) {
      const payload =
        typeof token === 'string'
          ? await jwtVerify(token, key, { audience: AUDIENCE, algorithms: ['HS256'] }).then(
              (verified) => verified.payload,
              () => undefined,
            )
          : undefined
      // A name is only looked up for a token with a valid signature.
      if (payload?.sub === undefined || (payload.sub !== idOrName && (isId(idOrName) || payload.sub !== (await idOf(idOrName)))))
        throw fault.unauthorized("the URL's token (jwt) is missing or is not this session's")
    },
  }
}
