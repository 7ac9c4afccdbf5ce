// Whose recordings a caller sees: those of a session; with the token of a browser of a pool, those that its holder has made.
import { fault } from '../../../http/fault.ts'
import { calledBy, type Called } from '../../../http/route.ts'
import type { ReplayRow } from './rows.ts'

/** A session of a project by id or name, also after its end. */
export type FindSession = (
  project: string | undefined,
  idOrName: string,
) => Promise<{ id: string; lease: number; state: string; created_at: Date | null } | undefined>

/** A session whose recordings are asked for; `since`: only those that were begun later. */
interface Recorded {
  id: string
  since: Date | undefined
}

/** Finds the session that is called so. @throws 404; 401 when its browser belongs to another caller of its pool by now */
export const recordedSession =
  (findSession: FindSession) =>
  async (project: string, called: Called): Promise<Recorded> => {
    const { idOrName, lease } = calledBy(called)
    const row = await findSession(project, idOrName)
    if (!row) throw fault.notFound('browser', idOrName)
    if (lease !== undefined && (row.lease !== lease || row.state === 'warm' || row.state === 'releasing'))
      throw fault.unauthorized('the browser was given back to its pool')
    return { id: row.id, since: lease ? (row.created_at ?? undefined) : undefined }
  }

/** Whether a replay was begun before a time, if one is given. */
export const isBefore = ({ started_at: at }: ReplayRow, since: Date | undefined): boolean => since !== undefined && at !== null && at < since
