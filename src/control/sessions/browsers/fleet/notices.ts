// What replicas of a scope tell each other about their browsers, as text. One that does not know a notice, because it has another version, looks by itself.

/** `tell` gets the text for the other replicas. */
export const noticesOf = (scope: string, tell: (text: string) => void) => ({
  tell,
  /** There is something to do for the one that fills the pools. */
  fill: `fill the pools of ${scope}`,
  /** There is one more for callers. */
  isReady: `one more is ready in ${scope}`,
  /** A caller wants an instance of a kind. */
  asked: (kind: string): string => `asked for a ${kind} in ${scope}`,
})
export type Notices = ReturnType<typeof noticesOf>

/** A browser that a replica watches is to be ended, and its row says so. */
export const endAt = (replica: string, id: string): string => `${replica} ${id} ends`

/** The browser that the replica is to end; undefined for other notices. */
export const endAskedOf = (text: string, replica: string): string | undefined =>
  text.startsWith(`${replica} `) && text.endsWith(' ends') ? text.slice(replica.length + 1, -' ends'.length) : undefined
