// Tokens in session URLs. Each opens one session, and is invalid once that session has ended.
import { isId } from '../../base/ids.ts'
import { makeSigner } from '../../base/signed.ts'
import { fault } from '../../http/fault.ts'

export interface SessionTokens {
  /** The token of a session. Always the same, so that the session's URLs never change. */
  sign(sessionId: string, host: string): Promise<string>
  /**
   * @throws 401 unless `token` opens the session `idOrName`. The caller must check that the session still lives. `idOf` finds the live session of
   * a name.
   */
  check(token: unknown, idOrName: string, idOf: (name: string) => Promise<string | undefined>): Promise<void>
}

export function sessionTokens(secretKey: Buffer): SessionTokens {
  const signer = makeSigner(secretKey, 'cob-session')
  return {
    // Clients read `session.fqdn` from the payload to find the session's host.
    sign: (sessionId, host) => signer.sign(sessionId, { session: { id: sessionId, fqdn: host } }),
    async check(token, idOrName, idOf) {
      const id = await signer.subjectOf(token)
      // A name is only looked up for a token with a valid signature.
      if (id === undefined || (id !== idOrName && (isId(idOrName) || id !== (await idOf(idOrName)))))
        throw fault.unauthorized("the URL's token (jwt) is missing or is not this session's")
    },
  }
}
