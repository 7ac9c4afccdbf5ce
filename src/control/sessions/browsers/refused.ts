// Why a session or a pool cannot be written, in words for its caller: its name is taken, what it names is gone, or there are not enough seats.
import { fault } from '../../../http/fault.ts'
import { NoRoom } from '../../../instances/driver.ts'
import { isDestinationGone, isDuplicate, isProjectGone } from '../../../store/db.ts'
import { NoSeat } from '../../../store/seats.ts'

/** Retry-After when the machine is full: a session may end at any moment. */
const FULL_RETRY_SECONDS = 5

/** Explains a name that another session or pool has, and a destination of telemetry that was deleted after it was looked up. @throws 409; 400 */
export const named = async <T>(name: string | null | undefined, work: Promise<T>): Promise<T> =>
  work.catch((error: unknown) => {
    if (isDestinationGone(error)) throw fault.field('telemetry.export.otlp.destination', 'has just been deleted')
    if (isDuplicate(error, 'browsers_name')) throw fault.conflict(`there is a live browser named "${name}" already`)
    throw isDuplicate(error, 'browser_pools_name') ? fault.conflict(`there is a browser pool named "${name}" already`) : error
  })

/** Explains a deleted project, a full machine, and that there are no `seats` more. @throws 404; 429 */
export const seated = async <T>(project: string, seats: number, maxBrowsers: number, work: Promise<T>): Promise<T> =>
  work.catch((error: unknown) => {
    if (isProjectGone(error)) throw fault.projectNotFound(project)
    if (error instanceof NoRoom) throw fault.tooMany(error.message, FULL_RETRY_SECONDS)
    if (!(error instanceof NoSeat)) throw error
    const limit =
      error.projectLimit === undefined
        ? `this machine may run ${maxBrowsers} browsers (COB_MAX_BROWSERS)`
        : `this project may run ${error.projectLimit} browsers (max_concurrent_sessions)`
    throw fault.tooMany(`${limit}, and there is no room for ${seats} more; a pool counts with its whole size`, FULL_RETRY_SECONDS)
  })
