// What sessions need of profiles: the shapes that profiles/ fills (types only).
import { fault } from '../../../http/fault.ts'
import type { Endpoint } from '../../../http/endpoint.ts'
import type { LeasedSession } from '../../../http/route.ts'
import type { Selected, SessionProfile } from '../profiles/contract.ts'
import type { BrowserRow } from './rows.ts'

/** A profile that a session is to have. */
export interface Chosen {
  id: string
  /** Its name, or its id if it has none. */
  called: string
  /** Whether it is saved when the session ends. */
  save: boolean
}

/** How a profile is loaded. */
export interface Loading {
  /** Whether the tabs of the saved session are opened again. */
  keepTabs: boolean
  /** The session has been running without a profile, and its caller has its id. */
  isUpdate: boolean
}

/** The columns of a session's row that say which profile it has. */
type ProfileColumns = Pick<BrowserRow, 'profile_id' | 'profile_save' | 'profile_base'>

export interface SessionProfiles {
  /**
   * The profile that a caller names, once no session that has ended is being saved into it any more: a caller sees what it has saved.
   * @throws 400 when there is none; 503 when the save takes too long
   */
  choose(project: string, given: Selected | undefined, signal: AbortSignal): Promise<Chosen | undefined>
  /**
   * Loads the state of a profile into the browser of a session. From then on the session's row names it, and its end saves it if that is wanted.
   * @throws 404 when the session has ended; 409 when it has a profile, or its browser refuses this one; 503
   */
  load(session: LeasedSession & { endpoint: Endpoint }, chosen: Chosen, how: Loading, signal: AbortSignal): Promise<ProfileColumns>
  /** Changes whether a running session is saved when it ends. @throws 400 when it has no profile */
  changeSave(session: { id: string; endpoint: Endpoint }, save: boolean): Promise<Pick<ProfileColumns, 'profile_save'>>
  /** What these sessions show of their profiles, by the profiles' ids. */
  shown(rows: readonly BrowserRow[]): Promise<Map<string, SessionProfile>>
}

/** A profile as `profile` names it, with `profile_save_changes` of newer clients. @throws 400 when they contradict each other */
export function withSave(given: Selected | undefined, save: boolean | undefined): Selected | undefined {
  if (save === undefined) return given
  if (!given) {
    if (save) throw fault.field('profile_save_changes', 'needs a profile')
    return undefined
  }
  if (given.save !== undefined && given.save !== save) throw fault.field('profile_save_changes', 'contradicts profile.save_changes')
  return { ...given, save }
}
