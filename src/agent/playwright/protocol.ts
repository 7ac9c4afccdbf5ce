// The messages between the agent and the worker process: JSON, one message per line, over file descriptor 3.

/** To the worker. */
export interface RunOrder {
  code: string
  /** The URL of the browser's debugging socket. */
  browser: string
  /** The longest time to connect to it, in milliseconds. */
  connectMs: number
  /** The worker prints it to both outputs when the run has ended. Everything before it belongs to this run. */
  mark: string
}

/** From the worker. */
export type WorkerMessage =
  /** The worker has read the order. The run's timeout begins now. */
  | { is: 'taken' }
  /** The browser is connected and the code begins. */
  | { is: 'begun' }
  /** The code has not begun: the connection failed, or (`late`) the browser did not answer in time. */
  | { is: 'unconnected'; why: string; late: boolean }
  | { is: 'ended'; success: boolean; result?: unknown; error?: string }
  /** The run is cleaned up. `fit` is false if it left side effects in the process; then the process must not take another run. */
  | { is: 'idle'; fit: boolean }

/** The largest result, in bytes of JSON. A screenshot of a long page has several megabytes. */
export const MAX_RESULT_BYTES = 16 * 1024 * 1024
