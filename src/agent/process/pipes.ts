// Pipes between the agent and the programs it starts. Node connects child processes by sockets, and a socket cannot be opened by its name: `echo x >
// /dev/stderr` and `cat /dev/stdin`, which scripts do, would fail.
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { closeSync, constants, fstatSync, mkdirSync, openSync, unlinkSync } from 'node:fs'
import { Socket, type SocketConstructorOpts } from 'node:net'
import { join } from 'node:path'
import { runToEnd } from '../../base/processes.ts'

/** Node cannot make a named pipe, so mkfifo makes many at once (2 ms). */
const BATCH = 32
const LOW = 8
const MAKE_MS = 10_000

/** Bytes per read; a pipe holds as much (pipe(7)). */
const READ_BYTES = 64 * 1024

/** Called for each piece that is read. Its buffer is reused for the next piece. */
export type OnData = (data: Buffer) => void

/** The two ends of a pipe: ours, and a descriptor for the program, which the caller closes once the program has it. */
export interface Pipe {
  ours: Socket
  theirs: number
}

export class Pipes {
  readonly #dir: string
  #fresh: string[] = []
  #making: Promise<void> | undefined

  /** `dir` is created with the first pipe. */
  constructor(dir: string) {
    this.#dir = dir
  }

  /** Opens a pipe that the program writes to, or without `onData` one that it reads from. */
  async open(onData?: OnData): Promise<Pipe> {
    const name = await this.#take()
    try {
      return openEnds(name, onData)
    } catch {
      // Programs of the session may have deleted the pipes; then make new ones.
      this.#fresh = []
      return openEnds(await this.#take(), onData)
    }
  }

  async #take(): Promise<string> {
    while (this.#fresh.length === 0) await this.#make()
    const name = this.#fresh.pop()!
    // When this fails, the next call gets the error.
    if (this.#fresh.length < LOW) this.#make().catch(() => {})
    return name
  }

  #make(): Promise<void> {
    return (this.#making ??= this.#makeNow().finally(() => (this.#making = undefined)))
  }

  async #makeNow(): Promise<void> {
    mkdirSync(this.#dir, { recursive: true, mode: 0o700 })
    const names = Array.from({ length: BATCH }, () => join(this.#dir, randomUUID()))
    const child = spawn('/usr/bin/mkfifo', ['-m', '600', ...names], { stdio: 'ignore' })
    const { status } = await runToEnd('pipes', MAKE_MS, child)
    if (status !== 0) throw new Error(`mkfifo ended with ${status}`)
    this.#fresh.push(...names)
  }
}

function openEnds(name: string, onData: OnData | undefined): Pipe {
  const { O_RDONLY, O_WRONLY, O_NONBLOCK } = constants
  const opened: number[] = []
  const open = (path: string, flags: number): number => {
    const fd = openSync(path, flags)
    opened.push(fd)
    return fd
  }
  try {
    // Open the reading end first and without blocking, then the other ends through it, so that all belong to the same pipe.
    const reading = open(name, O_RDONLY | O_NONBLOCK)
    unlinkSync(name)
    if (!fstatSync(reading).isFIFO()) throw new Error(`${name} is not a pipe any longer`)
    const writing = open(`/proc/self/fd/${reading}`, O_WRONLY)
    if (onData) return { ours: reader(reading, onData), theirs: writing }
    const theirs = open(`/proc/self/fd/${reading}`, O_RDONLY)
    closeSync(reading)
    opened.splice(0, 1)
    return { ours: new Socket({ fd: writing, readable: false, writable: true }), theirs }
  } catch (error) {
    for (const fd of opened) closeSync(fd)
    throw error
  }
}

/** Reads into one buffer that is reused. Otherwise a gigabyte of output would be a gigabyte of garbage, and the agent would grow by a hundred megabytes. */
function reader(fd: number, onData: OnData): Socket {
  const buffer = Buffer.allocUnsafeSlow(READ_BYTES)
  const onread = {
    buffer,
    callback: (length: number) => {
      onData(buffer.subarray(0, length))
      return true
    },
  }
  return new Socket({ fd, readable: true, writable: false, onread } as SocketConstructorOpts)
}
