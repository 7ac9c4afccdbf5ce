// What replicas of a scope tell each other about their warm pool, as text.
import type { OtherReplicas } from './warm-pool-state.ts'

/** There is something to do for the one that fills the warm pool. */
export const warmPoolOf = (scope: string): string => `shelf of ${scope}`

const ASKED = 'asked for a '
const ofScope = (scope: string): string => ` in ${scope}`

/** A caller wants an instance of a kind. */
const askedFor = (kind: string, scope: string): string => ASKED + kind + ofScope(scope)

/** The kind that a caller of another replica wants; undefined for other notices. */
export const kindAskedFor = (text: string, scope: string): string | undefined =>
  text.startsWith(ASKED) && text.endsWith(ofScope(scope)) ? text.slice(ASKED.length, -ofScope(scope).length) : undefined

const ENDS = ' ends'

/** A browser that a replica watches is to be ended, and its row says so. */
export const endAt = (replica: string, id: string): string => `${replica} ${id}${ENDS}`

/** The browser that the replica is to end; undefined for other notices. */
export const endAskedOf = (text: string, replica: string): string | undefined =>
  text.startsWith(`${replica} `) && text.endsWith(ENDS) ? text.slice(replica.length + 1, -ENDS.length) : undefined

/** There is one more in the warm pool. */
export const oneMoreIn = (scope: string): string => `one more is ready${ofScope(scope)}`

/** Tells the others; `tell` gets the text. */
export const otherReplicas = (scope: string, tell: (text: string) => void): OtherReplicas => ({
  asked: (kind) => tell(askedFor(kind, scope)),
  isReady: () => tell(oneMoreIn(scope)),
  end: (replica) => tell(replica),
})
