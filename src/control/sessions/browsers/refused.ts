// Errors for callers when a session or a pool cannot be written: its name is taken, an object that it names was deleted, or there are not enough seats.
import { fault } from '../../../http/fault.ts'
import { NoRoom } from '../../../instances/driver.ts'
import { isDestinationGone, isProjectGone } from '../../../store/db.ts'
import { NoSeat } from '../../../store/seats.ts'
import { written, type Named } from '../../service/written.ts'

/** Retry-After when the machine is full: a session may end at any moment. */
const FULL_RETRY_SECONDS = 5

const SESSION: Named = { table: 'browsers', one: 'a live browser' }

/**
 * Turns database errors into errors for callers: another session (or pool) has the name, or a destination of telemetry was deleted after it was looked up.
 * @throws 409; 400
 */
export const named = <T>(name: string | null | undefined, work: Promise<T>, of = SESSION): Promise<T> =>
  written(work, of, name).catch((error: unknown) => {
    throw isDestinationGone(error) ? fault.field('telemetry.export.otlp.destination', 'has just been deleted') : error
  })

/** Turns errors into errors for callers: the project was deleted, the machine is full, or `seats` more are not free. @throws 404; 429 */
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
