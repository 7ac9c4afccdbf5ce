// What replicas of a scope tell each other about their shelf, as text.

/** There is something to do for the one that fills the shelf. */
export const shelfOf = (scope: string): string => `shelf of ${scope}`

const ASKED = 'asked for a '
const ofScope = (scope: string): string => ` in ${scope}`

/** A caller wants an instance of a kind. */
export const askedFor = (kind: string, scope: string): string => ASKED + kind + ofScope(scope)

/** The kind that a caller of another replica wants; undefined for other notices. */
export const kindAskedFor = (text: string, scope: string): string | undefined =>
  text.startsWith(ASKED) && text.endsWith(ofScope(scope)) ? text.slice(ASKED.length, -ofScope(scope).length) : undefined

/** There is one more on the shelf. */
export const oneMoreIn = (scope: string): string => `one more is ready${ofScope(scope)}`
