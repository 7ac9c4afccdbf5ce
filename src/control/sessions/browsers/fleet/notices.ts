// Notices about browsers that replicas of a scope send each other, as text. A replica that does not know a notice, because it has another version, finds the
// change in the rows.

/** `tell` sends the text to the other replicas. */
export const noticesOf = (scope: string, tell: (text: string) => void) => ({
  tell,
  /** For the replica that fills the pools: there is something to do. */
  fill: `fill the pools of ${scope}`,
  /** One more instance is ready for callers. */
  isReady: `one more is ready in ${scope}`,
  /** A caller wants an instance of a kind. */
  asked: (kind: string): string => `asked for a ${kind} in ${scope}`,
})
export type Notices = ReturnType<typeof noticesOf>

/** The row of a browser says that it ends: the replica that watches it has to do that. */
export const endAt = (replica: string, id: string): string => `${replica} ${id} ends`

/** The browser that the replica is to end; undefined for other notices. */
export const endAskedOf = (text: string, replica: string): string | undefined =>
  text.startsWith(`${replica} `) && text.endsWith(' ends') ? text.slice(replica.length + 1, -' ends'.length) : undefined
