// What the agent and the process that runs the code say to each other: JSON, one message a line, over file descriptor 3.

/** To the worker: run this. */
export interface RunOrder {
  code: string
  /** The browser's debugging socket on this loopback. */
  browser: string
  /** The longest time to connect to it, in milliseconds. */
  connectMs: number
  /** Printed to both outputs when the run has ended, so that what comes before it is known to be of this run. */
  mark: string
}

/** From the worker. */
export type WorkerMessage =
  /** The order was read: from here on the run's own time counts. */
  | { is: 'taken' }
  /** The browser is connected; the code begins. */
  | { is: 'begun' }
  /** The code has not begun: the browser could not be connected to, or (`late`) did not answer in time. */
  | { is: 'unconnected'; why: string; late: boolean }
  | { is: 'ended'; success: boolean; result?: unknown; error?: string }
  /** Ready for the next run; or, when this one has left something behind in the process, not fit for another. */
  | { is: 'idle'; fit: boolean }

/** The largest result, in bytes of JSON. A picture of a long page is some megabytes. */
export const MAX_RESULT_BYTES = 16 * 1024 * 1024
