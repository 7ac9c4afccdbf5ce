// The addresses of live views. The token in an address is signed, names one session, and says whether its holder may control it or only watch.
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto'

/** The path of live views. The next segment is a token, which logs must not contain. */
export const LIVE_PATH = '/browser/live'

export type Access = 'control' | 'watch'

export interface LiveLinks {
  /** The path of a session's live view. Always the same, like the session's other addresses. */
  path(sessionId: string, access: Access): string
  /** What a token opens; undefined when its signature is wrong. The caller must check that the session still lives. */
  read(token: string): { id: string; access: Access } | undefined
}

const LETTERS: Record<Access, string> = { control: 'c', watch: 'w' }
const FORM = /^([a-z][a-z0-9]{23})([cw])([\w-]{32})$/

/** Links signed with a key derived from the service's secret: 192 bits, so that a token cannot be guessed or turned into another one. */
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
