// Tokens in session URLs. Each opens one session, and is invalid once that session has ended.
import { isId } from '../../base/ids.ts'
import { makeSigner } from '../../base/signed.ts'
import { fault } from '../../http/fault.ts'

export interface SessionTokens {
  /** The token of a session. Always the same, so that the session's URLs never change. */
  sign(sessionId: string, host: string): Promise<string>
  /**
   * The id of the session that `token` opens. @throws 401 unless that is the session `idOrName`. The caller must check that it still lives. `nameOf` tells the name of a live
   * session.
   */
  check(token: unknown, idOrName: string, nameOf: (id: string) => Promise<string | undefined>): Promise<string>
}

export function sessionTokens(secretKey: Buffer): SessionTokens {
  const signer = makeSigner(secretKey, 'cob-session')
  return {
    // Clients read `session.fqdn` from the payload to find the session's host.
    sign: (sessionId, host) => signer.sign(sessionId, { session: { id: sessionId, fqdn: host } }),
    async check(token, idOrName, nameOf) {
      const id = await signer.subjectOf(token)
      const isCalled = async (one: string) => !isId(idOrName) && (await nameOf(one))?.toLowerCase() === idOrName.toLowerCase()
      if (id === undefined || (id !== idOrName && !(await isCalled(id)))) throw fault.unauthorized("the URL's token (jwt) is missing or is not this session's")
      return id
    },
  }
}
