// The process that runs callers' code: a Node of its own with Playwright loaded, spoken to over file descriptor 3.
import { writeFileSync } from 'node:fs'
import { Socket } from 'node:net'
import { serveRuns } from './runs.ts'

// When the session's memory is used up, this process is the one to go, and not the browser or the agent.
try {
  writeFileSync('/proc/self/oom_score_adj', '1000')
} catch {} // /proc is read-only: then the kernel chooses by size, as ever

// What is printed is written there and then: not lost when the code ends the process, not heaped up when it prints without end.
for (const stream of [process.stdout, process.stderr]) (stream as unknown as { _handle?: { setBlocking?(on: boolean): void } })._handle?.setBlocking?.(true)

serveRuns(new Socket({ fd: 3, readable: true, writable: true }))
