// The addresses of live views. The token in one is signed, names one session, and says whether its holder may act or only look.
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto'

/** Where live views are. What comes next in a path is a token, which logs must not hold. */
export const LIVE_PATH = '/browser/live'

export type Access = 'control' | 'watch'

export interface LiveLinks {
  /** The path of a session's live view; always the same, as the session's other addresses are. */
  path(sessionId: string, access: Access): string
  /** What a token opens; undefined when we have not made it. That the session still lives is the caller's to check. */
  read(token: string): { id: string; access: Access } | undefined
}

const LETTERS: Record<Access, string> = { control: 'c', watch: 'w' }
const FORM = /^([a-z][a-z0-9]{23})([cw])([\w-]{32})$/

/** Links signed with a key derived from the service's secret: 192 bits, so that no token becomes another one's. */
export function liveLinks(secretKey: Buffer): LiveLinks {
  const key = Buffer.from(hkdfSync('sha256', secretKey, '', 'cob-live-view', 32))
  const proof = (told: string) => createHmac('sha256', key).update(told).digest().subarray(0, 24)
  return {
    path(sessionId, access) {
      const told = sessionId + LETTERS[access]
      return `${LIVE_PATH}/${told}${proof(told).toString('base64url')}`
    },
    read(token) {
      const [, id, letter, given] = FORM.exec(token) ?? []
      if (!id || !letter || !given || !timingSafeEqual(Buffer.from(given, 'base64url'), proof(id + letter))) return undefined
      return { id, access: letter === LETTERS.control ? 'control' : 'watch' }
    },
  }
}
