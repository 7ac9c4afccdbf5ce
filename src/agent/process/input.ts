// Writes to a program's input with a bounded queue, whether or not the program reads.
import { writeSync } from 'node:fs'
import type { Socket } from 'node:net'
import { Notifier } from '../../base/notifier.ts'
import { Mutex } from '../../base/mutex.ts'
import { sleep, within, WaitTimeout } from '../../base/wait.ts'
import { Fault, fault } from '../../http/fault.ts'

/** Bytes queued for one program; more are refused. The input of one call is always accepted when the queue is empty. */
export const QUEUED_BYTES = 1024 * 1024
/** Bytes queued for all programs of a session. */
export const QUEUED_IN_ALL_BYTES = 32 * 1024 * 1024

/** How long a call waits for the program to read earlier input. */
const ROOM_MS = 5_000

/** A closed input shows when a write fails; the kernel reports that at once. */
const SETTLE_MS = 20

/** Takes bytes. Resolves when the kernel has accepted all; rejects when nothing will read them. */
export type Sink = (data: Buffer) => Promise<void>

/** Bytes queued by all inputs of a session. */
export class Waiting {
  bytes = 0
  readonly notifier = new Notifier()
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
   * Accepts all of `data` or nothing. Resolves when it is queued; the program may not have read it yet. @throws 409 when the input is closed, or the
   * queue stays too full for some seconds
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

  /** Refuses later writes. The first reason is kept. */
  close(reason: string): void {
    this.#closed ??= reason
    this.#waiting.notifier.notify()
  }

  async #room(length: number, signal: AbortSignal): Promise<void> {
    for (;;) {
      this.#check()
      const fits = this.#queued === 0 || this.#queued + length <= QUEUED_BYTES
      if (fits && (this.#waiting.bytes === 0 || this.#waiting.bytes + length <= QUEUED_IN_ALL_BYTES)) return
      await this.#waiting.notifier.next(signal)
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
    this.#waiting.notifier.notify()
  }
}

function ignoreTimeout(error: unknown): void {
  if (!(error instanceof WaitTimeout)) throw error
}

/** A sink to the agent's end of a pipe. */
export function socketSink(socket: Socket): Sink {
  return (data) => new Promise((resolve, reject) => socket.write(data, (error) => (error ? reject(error) : resolve())))
}

/** Delay before the next try to write to a full terminal. */
const FULL_MS = 20
/** Bytes written to a terminal per turn of the event loop, so that the agent can do other work between. */
const SLICE_BYTES = 16 * 1024

/**
 * A sink to a terminal. Node's own write would block the whole agent until the program reads, because libuv treats the terminal's master side as
 * blocking. So this code writes itself. It uses no thread: by the time a thread writes, the descriptor may be closed and reused for another file.
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
