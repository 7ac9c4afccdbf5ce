// Reads the two pipes of an app's process: its output, as events, and its reports.
import { fstatSync, readdirSync, statSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { readLines } from '../base/lines.ts'
import { resultWithin } from '../base/wait.ts'
import type { Events } from './events.ts'
import { Lines } from './output-lines.ts'
import { MAX_REPORT, parseReport, type Report } from './report.ts'

/** Time for background processes to print after the app's process has ended. */
const LINGER_MS = 300
/** After that they are killed. Waiting for a process that cannot be killed ends after this time, unless the pipe is only paused by us. */
const GIVE_UP_MS = 2_000
const LOOK_MS = 20

/** Hooks for each line: the part that is logged, if any, and other receivers. */
export interface OnItsWay {
  change?: (line: string) => string | undefined
  see?: (line: string) => void
}

/** Sends all of `output` as log events, no faster than they are stored; resolves at its end. */
export function logOutput(output: Readable, events: Events, { change, see }: OnItsWay = {}): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const lines = new Lines((line) => {
    const text = change ? change(line) : line
    if (text !== undefined) events.log(text)
    see?.(line)
  })
  const forget = events.throttle(output)
  output.on('data', (chunk: Buffer) => lines.write(chunk))
  output.on('error', () => {})
  output.on('close', () => {
    forget()
    lines.end()
    resolve()
  })
  return promise
}

/** Reads reports; resolves at their end. Invalid lines are ignored; a line that is too long ends the reading. */
export function readReports(pipe: Readable, hear: (report: Report) => void): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  readLines(pipe, MAX_REPORT, (line) => {
    if (line === undefined) return void pipe.destroy()
    const report = parseReport(line)
    if (report) hear(report)
  })
  pipe.on('error', () => {})
  pipe.on('close', () => resolve())
  return promise
}

/** Resolves when `output`, the reading end `fd` of a pipe, has ended. After its process has ended, all other processes that hold the writing end are killed. */
export async function drained(output: Readable, fd: number, ended: Promise<void>): Promise<void> {
  if (await endsWithin(ended, LINGER_MS)) return
  for (let waited = 0; waited < GIVE_UP_MS;) {
    killHolders(fd)
    if (await endsWithin(ended, LOOK_MS)) return
    if (!output.isPaused()) waited += LOOK_MS
  }
  output.destroy()
}

export async function endsWithin(ended: Promise<unknown>, ms: number): Promise<boolean> {
  const hasEnded = ended.then(() => true)
  return (await resultWithin(ms, hasEnded)) ?? false
}

/** Kills every other process that has the pipe of our descriptor `fd` open. */
export function killHolders(fd: number): void {
  const { dev, ino } = fstatSync(fd)
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)) {
    if (!openFiles(pid).some((path) => isSame(path, dev, ino))) continue
    try {
      process.kill(Number(pid), 'SIGKILL')
    } catch {} // it has ended, or belongs to another user
  }
}

function openFiles(pid: string): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).map((fd) => `/proc/${pid}/fd/${fd}`)
  } catch {
    return []
  }
}

function isSame(path: string, dev: number, ino: number): boolean {
  try {
    const stat = statSync(path)
    return stat.dev === dev && stat.ino === ino
  } catch {
    return false
  }
}
