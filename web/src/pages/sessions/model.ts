// A session as pages show it: its state in words, and addresses at this dashboard's own origin.
import type { ItemOf } from '../../api/contracts.ts'
import { printable } from '../../ui/text.ts'

export type Session = ItemOf<'listBrowsers'>

/** Used until a session reports its own viewport. */
export const DEFAULT_SCREEN = { width: 1920, height: 1080 }

export const isRunning = ({ deleted_at: deleted }: Session): boolean => deleted === undefined
export const nameOf = ({ name, session_id: id }: Session): string => (name === undefined ? id : printable(name))

export const kindOf = ({ headless, stealth, kiosk_mode: kiosk }: Pick<Session, 'headless' | 'stealth' | 'kiosk_mode'>): string =>
  [headless && 'headless', stealth && 'stealth', kiosk && 'kiosk'].filter(Boolean).join(', ') || 'with a window'

/** How long a session has lived. Its end by timeout cannot be shown: it depends on the last use, which the service does not report. */
export const lifetime = ({ created_at: created, deleted_at: deleted }: Session, now = Date.now()): number =>
  (deleted === undefined ? now : Date.parse(deleted)) - Date.parse(created)

/** The path of an address that the service made, for this page's origin. Behind a proxy the service may have several names, but a frame may only show this origin. */
export const own = (url: string): string => {
  const { pathname, search } = new URL(url)
  return pathname + search
}
