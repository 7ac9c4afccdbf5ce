// Kernel file events for one watch: a small program (inotify.pl) reads them, and this file talks to it. tree.ts interprets them.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { constants } from 'node:os'
import { join } from 'node:path'
import { within } from '../../base/wait.ts'
import { fault } from '../../http/fault.ts'

/** Bits of events and of watch masks (linux/inotify.h). */
export const IN = {
  MODIFY: 0x2,
  MOVED_FROM: 0x40,
  MOVED_TO: 0x80,
  CREATE: 0x100,
  DELETE: 0x200,
  DELETE_SELF: 0x400,
  MOVE_SELF: 0x800,
  UNMOUNT: 0x2000,
  Q_OVERFLOW: 0x4000,
  IGNORED: 0x8000,
  ONLYDIR: 0x1000000,
  DONT_FOLLOW: 0x2000000,
  EXCL_UNLINK: 0x4000000,
  ISDIR: 0x40000000,
} as const

/** inotify_init1, inotify_add_watch and inotify_rm_watch, by Node's name of the processor. */
const SYSTEM_CALLS: Record<string, string[]> = { x64: ['294', '254', '255'], arm64: ['26', '27', '28'] }

const PROGRAM = '/usr/bin/perl'
/** It starts in 10 ms, and in some hundreds on a very busy machine. */
const START_MS = 10_000
/** Timeout of an answer: the program only has to read the kernel's queue, but all other programs of the session may slow it down. */
const ANSWER_MS = 60_000
const END_MS = 5_000

export interface KernelEvent {
  /** The number of the watch; -1 for events of the queue itself. */
  watch: number
  mask: number
  /** The same for both events of a rename. */
  cookie: number
  name: string
}

export interface Inotify extends AsyncDisposable {
  /**
   * Watches a directory. `added` is called with the watch's number before its first event. @throws an error with a `code` (ENOENT, ENOTDIR, EACCES,
   * ENOSPC when the system's limit of watches is reached)
   */
  add(path: string, mask: number, added: (watch: number) => void): Promise<void>
  remove(watch: number): void
  /** Resolves when all events until now have been delivered. */
  caughtUp(): Promise<void>
  /** Settles when the program ends: after it was told to, or when it fails. */
  ended: Promise<void>
}

/** Starts the program. `onEvent` gets the events in their order. */
export async function openInotify(onEvent: (event: KernelEvent) => void, signal: AbortSignal): Promise<Inotify> {
  const numbers = SYSTEM_CALLS[process.arch]
  if (!numbers) throw fault.broken(`watches do not work on ${process.arch}`)
  const child = spawn(PROGRAM, [join(import.meta.dirname, 'inotify.pl'), ...numbers], { stdio: ['pipe', 'pipe', 'ignore'] })
  const ended = once(child, 'close').then(
    ([code]) => code as number | null,
    () => null,
  )
  const started = Promise.withResolvers<void>()
  child.on('error', (error) => started.reject(fault.broken(`watches need ${PROGRAM}`, error)))
  // Its exit code is the errno of its failure.
  void ended.then((code) =>
    started.reject(
      code === constants.errno.EMFILE
        ? fault.unavailable('there are as many watches as the system allows its user (fs.inotify.max_user_instances)')
        : fault.unavailable(`the watch program ended with ${code}`),
    ),
  )
  child.stdin.on('error', () => {}) // write errors mean that it has ended, which `ended` reports

  const waiting = new Map<number, (bytes: Buffer) => void>()
  let lastId = 0
  const send = (letter: string, id: number, bytes: Uint8Array = new Uint8Array()) => {
    const head = Buffer.alloc(9)
    head.write(letter)
    head.writeUInt32BE(id, 1)
    head.writeUInt32BE(bytes.length, 5)
    child.stdin.write(Buffer.concat([head, bytes]))
  }
  const ask = async (letter: string, bytes?: Uint8Array, onAnswer: (bytes: Buffer) => void = () => {}): Promise<void> => {
    const { promise, resolve } = Promise.withResolvers<void>()
    const id = (lastId = (lastId + 1) >>> 0)
    waiting.set(id, (answer) => {
      onAnswer(answer)
      resolve()
    })
    send(letter, id, bytes)
    // Stop waiting when the program ends.
    await within('an answer of the watch program', ANSWER_MS, Promise.race([promise, ended]))
    if (waiting.delete(id)) throw new Error('the watch program has ended')
  }
  const onFrame = (letter: string, id: number, bytes: Buffer) => {
    if (letter === 'E') for (const event of eventsIn(bytes)) onEvent(event)
    else if (letter === 'R') started.resolve()
    else {
      const answer = waiting.get(id)
      waiting.delete(id)
      answer?.(bytes)
    }
  }
  readFrames(child, onFrame)

  const end = async () => {
    child.stdin.end()
    child.kill('SIGKILL')
    await within('the watch program to end', END_MS, ended)
  }
  try {
    await within('the watch program', START_MS, started.promise, signal)
  } catch (error) {
    await end()
    throw error
  }
  return {
    async add(path, mask, added) {
      const head = Buffer.alloc(4)
      head.writeUInt32BE(mask)
      let failed = 0
      await ask('A', Buffer.concat([head, Buffer.from(`${path}\0`)]), (answer) => {
        const watch = answer.readInt32BE()
        if (watch < 0) failed = -watch
        else added(watch)
      })
      if (failed !== 0) throw Object.assign(new Error(`${path} cannot be watched`), { code: nameOf(failed) })
    },
    remove: (watch) => send('D', watch),
    caughtUp: () => ask('S'),
    ended: ended.then(() => {}),
    [Symbol.asyncDispose]: end,
  }
}

function readFrames(child: ChildProcess, onFrame: (letter: string, id: number, bytes: Buffer) => void): void {
  let held: Buffer = Buffer.alloc(0)
  child.stdout!.on('data', (chunk: Buffer) => {
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk])
    let at = 0
    while (held.length - at >= 9) {
      const length = held.readUInt32BE(at + 5)
      if (held.length - at < 9 + length) break
      onFrame(held.toString('latin1', at, at + 1), held.readUInt32BE(at + 1), held.subarray(at + 9, at + 9 + length))
      at += 9 + length
    }
    held = held.subarray(at)
  })
}

/** Parses the `struct inotify_event`s of one read, in the machine's byte order, which is little-endian wherever Node runs. */
export function* eventsIn(bytes: Buffer): Generator<KernelEvent> {
  for (let at = 0; at + 16 <= bytes.length;) {
    const length = bytes.readUInt32LE(at + 12)
    const name = bytes.toString('utf8', at + 16, at + 16 + length)
    yield { watch: bytes.readInt32LE(at), mask: bytes.readUInt32LE(at + 4), cookie: bytes.readUInt32LE(at + 8), name: name.replace(/\0+$/, '') }
    at += 16 + length
  }
}

const nameOf = (errno: number): string => Object.entries(constants.errno).find(([, value]) => value === errno)?.[0] ?? `errno ${errno}`
