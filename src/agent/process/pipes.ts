// Pipes between the agent and the programs it starts. Node itself connects children by sockets, and what is a socket cannot be
// opened by its name: `echo x > /dev/stderr` and `cat /dev/stdin`, which scripts do, would fail.
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { closeSync, constants, fstatSync, mkdirSync, openSync, unlinkSync } from 'node:fs'
import { Socket, type SocketConstructorOpts } from 'node:net'
import { join } from 'node:path'
import { within } from '../../base/wait.ts'

/** Node has no way to make a pipe with a name, so a program makes many at once (2 ms). */
const BATCH = 32
const LOW = 8
const MAKE_MS = 10_000

/** Read at once; a pipe holds as much (pipe(7)). */
const READ_BYTES = 64 * 1024

/** Told of every piece that is read. The memory it is in is used again for the next. */
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

  /** `dir` is made when the first pipe is. */
  constructor(dir: string) {
    this.#dir = dir
  }

  /** Opens a pipe that the program writes to, or without `onData` one that it reads from. */
  async open(onData?: OnData): Promise<Pipe> {
    const name = await this.#take()
    try {
      return openEnds(name, onData)
    } catch {
      // Programs of the session may have taken the names away; then there are new ones.
      this.#fresh = []
      return openEnds(await this.#take(), onData)
    }
  }

  async #take(): Promise<string> {
    while (this.#fresh.length === 0) await this.#make()
    const name = this.#fresh.pop()!
    // The next call finds out by itself when this does not succeed.
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
    try {
      const [code] = (await within('pipes', MAKE_MS, once(child, 'exit'))) as [number | null]
      if (code !== 0) throw new Error(`mkfifo ended with ${code}`)
    } finally {
      child.kill('SIGKILL')
    }
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
    // The reading end first and without waiting; the others by way of it, so that they are ends of the same pipe.
    const reading = open(name, O_RDONLY | O_NONBLOCK)
    unlinkSync(name)
    if (!fstatSync(reading).isFIFO()) throw new Error(`${name} is no pipe any more`)
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

/** Reads into the same memory again and again: a gigabyte printed would otherwise be a gigabyte of garbage, and the agent's memory grow by a hundred megabytes. */
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
