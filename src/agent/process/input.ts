// Writing to a program's input without holding more than a little of it, whether or not the program reads.
import { writeSync } from 'node:fs'
import type { Socket } from 'node:net'
import { Bell } from '../../base/bell.ts'
import { Mutex } from '../../base/mutex.ts'
import { sleep, within, WaitTimeout } from '../../base/wait.ts'
import { Fault, fault } from '../../http/fault.ts'

/** Bytes that wait for a program before more is refused. One call's input is always taken when nothing waits. */
export const QUEUED_BYTES = 1024 * 1024
/** Bytes that wait for all programs of a session. */
export const QUEUED_IN_ALL_BYTES = 32 * 1024 * 1024

/** How long a call waits for a program to read what earlier calls wrote. */
const ROOM_MS = 5_000

/** A program that has closed its input is noticed when writing fails; the kernel says so at once. */
const SETTLE_MS = 20

/** Where bytes go. Resolves when the kernel has taken all, and rejects when nobody will read them. */
export type Sink = (data: Buffer) => Promise<void>

/** Bytes that wait, of all inputs of a session. */
export class Waiting {
  bytes = 0
  readonly bell = new Bell()
}

export class Input {
  readonly #sink: Sink
  readonly #waiting: Waiting
  readonly #turns = new Mutex()
  readonly #roomMs: number
  #queued = 0
  #closed: string | undefined

  constructor(sink: Sink, waiting: Waiting, roomMs = ROOM_MS) {
    this.#sink = sink
    this.#waiting = waiting
    this.#roomMs = roomMs
  }

  /**
   * Takes all of `data` or nothing: it is on its way to the program when this resolves, whether the program has read it or not.
   * @throws 409 when the input is closed, or so much waits in it that this does not fit within some seconds
   */
  async write(data: Buffer, signal: AbortSignal): Promise<void> {
    const patience = AbortSignal.timeout(this.#roomMs)
    const either = AbortSignal.any([signal, patience])
    let isTaken = false
    const take = async () => {
      await this.#room(data.length, either)
      isTaken = true
      this.#count(data.length)
      const taken = this.#sink(data)
        .catch(() => this.close('the program has closed its input, or ended'))
        .finally(() => this.#count(-data.length))
      await within('the program to take its input', SETTLE_MS, taken).catch(ignoreTimeout)
      this.#check()
    }
    try {
      await this.#turns.run(take, either)
    } catch (error) {
      signal.throwIfAborted()
      throw patience.aborted && !isTaken && !(error instanceof Fault) ? this.#refusal() : error
    }
  }

  /** Refuses what is written from now on. The first reason stays. */
  close(reason: string): void {
    this.#closed ??= reason
    this.#waiting.bell.ring()
  }

  async #room(length: number, signal: AbortSignal): Promise<void> {
    for (;;) {
      this.#check()
      const fits = this.#queued === 0 || this.#queued + length <= QUEUED_BYTES
      if (fits && (this.#waiting.bytes === 0 || this.#waiting.bytes + length <= QUEUED_IN_ALL_BYTES)) return
      await this.#waiting.bell.heard(signal)
    }
  }

  #refusal(): Fault {
    return fault.conflict(
      `the program does not read its input: ${this.#queued} bytes wait for it (${this.#waiting.bytes} for all programs of the session); nothing of this call was written`,
    )
  }

  #check(): void {
    if (this.#closed !== undefined) throw fault.conflict(this.#closed)
  }

  #count(bytes: number): void {
    this.#queued += bytes
    this.#waiting.bytes += bytes
    this.#waiting.bell.ring()
  }
}

function ignoreTimeout(error: unknown): void {
  if (!(error instanceof WaitTimeout)) throw error
}

/** A sink to the agent's end of a pipe. */
export function socketSink(socket: Socket): Sink {
  return (data) => new Promise((resolve, reject) => socket.write(data, (error) => (error ? reject(error) : resolve())))
}

/** How soon it is tried again to write to a terminal that is full. */
const FULL_MS = 20
/** Bytes handed to a terminal at once, so that the agent has time for others in between. */
const SLICE_BYTES = 16 * 1024

/**
 * A sink to a terminal. Node would write to it in a loop that ends when the program reads, and do nothing else meanwhile
 * (libuv takes the master's side of a terminal for one that blocks), so it is written to here. Not by a thread: the
 * descriptor may be closed, and be another file's, by the time that one gets to it.
 */
export function terminalSink(fd: number, isClosed: () => boolean): Sink {
  const turns = new Mutex()
  return (data) =>
    turns.run(async () => {
      for (let at = 0; at < data.length;) {
        if (isClosed()) throw new Error('the terminal is closed')
        try {
          at += writeSync(fd, data, at, Math.min(SLICE_BYTES, data.length - at))
          if (at < data.length) await new Promise(setImmediate)
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
          await sleep(FULL_MS)
        }
      }
    })
}
