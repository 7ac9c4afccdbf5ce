// The process that runs callers' code: a Node of its own with Playwright loaded, spoken to over file descriptor 3.
import { Socket } from 'node:net'
import { serveRuns } from './runs.ts'

// What is printed is written there and then: not lost when the code ends the process, not heaped up when it prints without end.
for (const stream of [process.stdout, process.stderr]) (stream as unknown as { _handle?: { setBlocking?(on: boolean): void } })._handle?.setBlocking?.(true)

serveRuns(new Socket({ fd: 3, readable: true, writable: true }))
