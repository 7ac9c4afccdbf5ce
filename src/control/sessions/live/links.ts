// The addresses of live views. The token in an address is signed, names one session, and says what its holder may do.
import { makeShortSigner } from '../../../base/signed.ts'
import type { LeasedSession } from '../../../http/route.ts'

/** The path of live views. The next segment is a token, which logs must not contain. */
export const LIVE_PATH = '/browser/live'

/** `act`: of the person who helps a login; control while that waits for it, else only to watch. */
export type Access = 'control' | 'watch' | 'act'

export interface LiveLinks {
  /** The path of a session's live view. Always the same, like the session's other addresses. */
  path(session: LeasedSession, access: Access): string
  /** What a token opens; undefined when its signature is wrong. The caller must check that the session still lives, and belongs to the same caller. */
  read(token: string): (LeasedSession & { access: Access }) | undefined
}

const LETTERS = { control: 'c', watch: 'w', act: 'a' } as const satisfies Record<Access, string>
const ACCESS: Record<string, Access> = { c: 'control', w: 'watch', a: 'act' }
const FORM = /^([a-z][a-z0-9]{23})(?:\.(\d+))?([cwa])$/

export function liveLinks(secretKey: Buffer): LiveLinks {
  const signer = makeShortSigner(secretKey, 'cob-live-view')
  return {
    path: ({ id, lease }, access) => `${LIVE_PATH}/${signer.sign(`${id}${lease === 0 ? '' : `.${lease}`}${LETTERS[access]}`)}`,
    read(token) {
      const [, id, lease = '0', letter = ''] = FORM.exec(signer.textOf(token) ?? '') ?? []
      return id === undefined ? undefined : { id, lease: Number(lease), access: ACCESS[letter]! }
    },
  }
}
