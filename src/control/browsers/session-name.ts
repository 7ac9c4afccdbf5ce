// Names of sessions are unique among the live ones of a project: the database refuses a second one.
import { fault } from '../../http/fault.ts'
import { isDuplicate } from '../../store/db.ts'

/** Explains a name that another session has. @throws 409 */
export const named = async <T>(name: string | null | undefined, work: Promise<T>): Promise<T> =>
  work.catch((error: unknown) => {
    throw isDuplicate(error, 'browsers_name') ? fault.conflict(`there is a live browser named "${name}" already`) : error
  })
