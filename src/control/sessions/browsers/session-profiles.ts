// Interfaces through which sessions use profiles; profiles/ implements them (types only).
import { fault } from '../../../http/fault.ts'
import type { Endpoint } from '../../../http/endpoint.ts'
import type { AcquiredSession } from '../../../http/route.ts'
import type { Selected, SessionProfile } from '../profiles/contract.ts'
import type { BrowserRow } from './rows.ts'

/** The profile for a session. */
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
   * The profile that a caller names. Waits until no ended session saves into it, so that a caller sees what its earlier session has saved.
   * @throws 400 when there is none; 503 when the save takes too long
   */
  choose(project: string, given: Selected | undefined, signal: AbortSignal): Promise<Chosen | undefined>
  /**
   * Loads a profile into the browser of a session. After that, the session's row names the profile, and the end of the session saves it if `chosen` says so.
   * @throws 404 when the session has ended; 409 when it has a profile, or its browser refuses this one; 503
   */
  load(session: AcquiredSession & { endpoint: Endpoint }, chosen: Chosen, how: Loading, signal: AbortSignal): Promise<ProfileColumns>
  /** Changes whether the profile of a running session is saved at its end. @throws 400 when it has no profile */
  changeSave(session: { id: string; endpoint: Endpoint }, save: boolean): Promise<Pick<ProfileColumns, 'profile_save'>>
  /** What the answers for these sessions show of their profiles, by the profiles' ids. */
  shown(rows: readonly BrowserRow[]): Promise<Map<string, SessionProfile>>
}

/** The `profile` option, combined with `profile_save_changes` of newer clients. @throws 400 when they contradict each other */
export function withSave(given: Selected | undefined, save: boolean | undefined): Selected | undefined {
  if (save === undefined) return given
  if (!given) {
    if (save) throw fault.field('profile_save_changes', 'needs a profile')
    return undefined
  }
  if (given.save !== undefined && given.save !== save) throw fault.field('profile_save_changes', 'contradicts profile.save_changes')
  return { ...given, save }
}
