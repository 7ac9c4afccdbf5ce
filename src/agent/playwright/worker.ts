// The worker process that runs callers' code: a separate Node with Playwright loaded. The agent talks to it over file descriptor 3.
import { writeFileSync } from 'node:fs'
import { Socket } from 'node:net'
import { serveRuns } from './runs.ts'

// If the session runs out of memory, the kernel kills this process first, not the browser or the agent.
try {
  writeFileSync('/proc/self/oom_score_adj', '1000')
} catch {} // /proc is read-only: the kernel then chooses by size, as usual

// Write output synchronously. It is not lost when the code exits, and does not pile up in memory when the code prints without end.
for (const stream of [process.stdout, process.stderr]) (stream as unknown as { _handle?: { setBlocking?(on: boolean): void } })._handle?.setBlocking?.(true)

serveRuns(new Socket({ fd: 3, readable: true, writable: true }))
