// Ctrl-C for a command that can be ended and run again.

/** Aborts at the first SIGINT, SIGTERM or SIGHUP, so that processes of the command (a Postgres) end in order. A second one ends the process at once. */
export function stopSignal(): AbortSignal {
  const stop = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(name, () => stop.abort(new Error(`ended by ${name}; run it again to go on`)))
  return stop.signal
}
