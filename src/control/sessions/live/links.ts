// The addresses of live views. The token in an address is signed, names one session, and has the rights of its holder.
import { makeShortSigner } from '../../../base/signed.ts'
import type { AcquiredSession } from '../../../http/route.ts'

/** The path of live views. The next segment is a token, which logs must not contain. */
export const LIVE_PATH = '/browser/live'

/** `act` is for a person who helps a login: control while the login waits for the person, otherwise only watching. */
export type Access = 'control' | 'watch' | 'act'

export interface LiveLinks {
  /** The path of a session's live view. Always the same, like the session's other addresses. */
  path(session: AcquiredSession, access: Access): string
  /** The content of a token; undefined when its signature is wrong. The caller must check that the session still lives, and has the same caller. */
  read(token: string): (AcquiredSession & { access: Access }) | undefined
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
