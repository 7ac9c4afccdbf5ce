// What a session is for the pages: its state in words, and addresses below this dashboard's own origin.
import type { ItemOf } from '../../api/contracts.ts'
import { printable } from '../../ui/text.ts'

export type Session = ItemOf<'listBrowsers'>

/** While a session does not say its own. */
export const DEFAULT_SCREEN = { width: 1920, height: 1080 }

export const isRunning = ({ deleted_at: deleted }: Session): boolean => deleted === undefined
export const nameOf = ({ name, session_id: id }: Session): string => (name === undefined ? id : printable(name))

/** When a session that nobody uses ends is counted from its last use, which the service keeps to itself; so only the length is told. */
export const lifetime = ({ created_at: created, deleted_at: deleted }: Session, now = Date.now()): number =>
  (deleted === undefined ? now : Date.parse(deleted)) - Date.parse(created)

/**
 * The page behind an address that the service has made, at this page's origin: behind a proxy the service may be known by several names, and frames may
 * show only this one.
 */
export const own = (url: string): string => {
  const { pathname, search } = new URL(url)
  return pathname + search
}
