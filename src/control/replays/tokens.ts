// Tokens of player pages. Each opens one replay, for as long as that replay exists.
import { SignJWT, jwtVerify } from 'jose'
import { hkdfSync } from 'node:crypto'

const AUDIENCE = 'cob-replay'

export interface ReplayTokens {
  /** The token of a replay. Always the same, so that the replay's URL never changes. */
  sign(replayId: string): Promise<string>
  /** Whether a token opens a replay. */
  opens(token: unknown, replayId: string): Promise<boolean>
}

export function replayTokens(secretKey: Buffer): ReplayTokens {
  const key = new Uint8Array(hkdfSync('sha256', secretKey, '', AUDIENCE, 32))
  return {
    sign: (replayId) => new SignJWT({}).setProtectedHeader({ alg: 'HS256' }).setAudience(AUDIENCE).setSubject(replayId).sign(key),
    opens: async (token, replayId) =>
      typeof token === 'string' &&
      (await jwtVerify(token, key, { audience: AUDIENCE, algorithms: ['HS256'] }).then(
        ({ payload }) => payload.sub === replayId,
        () => false,
      )),
  }
}
