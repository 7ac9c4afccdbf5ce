// Tokens in session URLs. A token opens one session and is invalid after its end. For a browser of a pool, it opens only one acquisition, until its release.
import { isId } from '../../../base/ids.ts'
import { makeSigner } from '../../../base/signed.ts'
import { fault } from '../../../http/fault.ts'
import type { AcquiredSession } from '../../../http/route.ts'

/** Queries about live sessions, by id. */
export interface LiveSessions {
  nameOf: (id: string) => Promise<string | undefined>
  leaseOf: (id: string) => Promise<number | undefined>
}

/** The subject of a token: a session, with its acquisition if it has one. */
const subjectOf = ({ id, lease }: AcquiredSession): string => (lease === 0 ? id : `${id}.${lease}`)

export interface SessionTokens {
  /** The token of a session. Always the same, so that the session's URLs never change. */
  sign(session: AcquiredSession, host: string): Promise<string>
  /**
   * The session that `token` opens. @throws 401 unless that is the session `idOrName` and still has the same caller. Code that uses the result checks both
   * again.
   */
  check(token: unknown, idOrName: string, sessions: LiveSessions): Promise<AcquiredSession>
}

export function sessionTokens(secretKey: Buffer): SessionTokens {
  const signer = makeSigner(secretKey, 'cob-session')
  return {
    // Clients read `session.fqdn` from the payload to find the session's host.
    sign: (session, host) => signer.sign(subjectOf(session), { session: { id: session.id, fqdn: host } }),
    async check(token, idOrName, { nameOf, leaseOf }) {
      const [id, lease] = (await signer.subjectOf(token))?.split('.') ?? []
      const isCalled = async (one: string) => !isId(idOrName) && (await nameOf(one))?.toLowerCase() === idOrName.toLowerCase()
      if (id === undefined || (id !== idOrName && !(await isCalled(id)))) throw fault.unauthorized("the URL's token (jwt) is missing or is not this session's")
      if (lease !== undefined && (await leaseOf(id)) !== Number(lease)) throw fault.unauthorized('the browser was given back to its pool; acquire one again')
      return { id, lease: Number(lease ?? 0) }
    },
  }
}
