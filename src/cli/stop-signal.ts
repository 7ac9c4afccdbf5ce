// Ctrl-C of a command that can be ended and run again.

/** Aborts at the first SIGINT, SIGTERM or SIGHUP, so that what the command has started (a Postgres) ends in order. A second one ends the process at once. */
export function stopSignal(): AbortSignal {
  const stop = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(name, () => stop.abort(new Error(`ended by ${name}; run it again to go on`)))
  return stop.signal
}
