// What the database refuses of a session's row, in words for its caller: a name that is unique among the live ones of a project, a destination that is gone.
import { fault } from '../../../http/fault.ts'
import { isDestinationGone, isDuplicate } from '../../../store/db.ts'

/** Explains a name that another session has, and a destination of telemetry that was deleted after it was looked up. @throws 409; 400 */
export const named = async <T>(name: string | null | undefined, work: Promise<T>): Promise<T> =>
  work.catch((error: unknown) => {
    if (isDestinationGone(error)) throw fault.field('telemetry.export.otlp.destination', 'has just been deleted')
    throw isDuplicate(error, 'browsers_name') ? fault.conflict(`there is a live browser named "${name}" already`) : error
  })
