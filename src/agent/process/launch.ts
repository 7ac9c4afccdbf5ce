// Starting a program with pipes: its output comes out, its input goes in, and its end is told as a shell would.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync } from 'node:fs'
import type { Socket } from 'node:net'
import { constants } from 'node:os'
import { setTimeout as sleepFor } from 'node:timers/promises'
import { fault } from '../../http/fault.ts'
import type { Command } from './command.ts'
import type { Stream } from './contract.ts'
import { socketSink, type Sink } from './input.ts'
import type { OnData, Pipe, Pipes } from './pipes.ts'

/**
 * A program that has ended may have left others behind that hold its output open. What it printed itself is in the pipe by
 * then, so its output counts as complete after this time; what the others print later goes nowhere.
 */
const DRAIN_MS = 50

export interface Launched {
  pid: number
  /** The exit code, or 128 + the signal's number, when all that the program printed has been told. */
  exited: Promise<number>
  /** Undefined for a program without input. */
  sink: Sink | undefined
  resize?: (size: { rows: number; cols: number }) => void
}

/** Told of every piece of output. Its memory is used again for the next: what is kept is copied. */
export type OnOutput = (stream: Stream, data: Buffer) => void
export type Start<T> = (command: Command, onOutput: OnOutput, options: T) => Launched

/** Starts a program. @throws 400, 429 or 503 when the kernel refuses it */
export async function startOnPipes(command: Command, onOutput: OnOutput, pipes: Pipes, withInput: boolean): Promise<Launched> {
  using theirs = new DisposableStack()
  using ours = new DisposableStack()
  const open = async (onData?: OnData): Promise<Pipe> => {
    const pipe = await pipes.open(onData).catch(refuse)
    theirs.defer(() => closeSync(pipe.theirs))
    ours.defer(() => pipe.ours.destroy())
    return pipe
  }
  const input = withInput ? await open() : undefined
  const stdout = await open((data) => onOutput('stdout', data))
  const stderr = await open((data) => onOutput('stderr', data))
  const child = await begin(command, [input?.theirs ?? 'ignore', stdout.theirs, stderr.theirs])
  ours.move() // they are the program's now, and end with it
  // A program that closes its input is told to whoever writes next.
  input?.ours.on('error', () => {})
  const exit = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
  const read = Promise.all([ended(stdout.ours), ended(stderr.ours)])
  const exited = exit.then(async ([code, signal]) => {
    input?.ours.destroy()
    await Promise.race([read, drained()])
    return code ?? 128 + constants.signals[signal!]
  })
  return { pid: child.pid!, exited, sink: input && socketSink(input.ours) }
}

async function begin({ line, cwd, env }: Command, stdio: (number | 'ignore')[]): Promise<ChildProcess> {
  try {
    const child = spawn(line[0]!, line.slice(1), { cwd, env, detached: true, stdio })
    // What could not be started has no pid, and says why in the next turn.
    if (child.pid === undefined) throw (await once(child, 'error'))[0]
    return child
  } catch (error) {
    return refuse(error as NodeJS.ErrnoException)
  }
}

/** Resolves at the end of a stream; it is read on when nobody listens any more, or whoever still writes to it would wait for ever. */
function ended(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    socket
      .on('close', () => resolve())
      .on('error', () => resolve())
      .resume()
  })
}

async function drained(): Promise<void> {
  await sleepFor(DRAIN_MS)
  // A busy agent may not have looked at its pipes within that time; it does between these turns.
  for (let turns = 0; turns < 3; turns++) await new Promise(setImmediate)
}

/** @throws what the kernel's refusal means to a caller */
export function refuse(error: NodeJS.ErrnoException): never {
  switch (error.code) {
    case 'E2BIG':
      throw fault.field('args', 'with the environment are longer than Linux takes')
    case 'ENOTDIR':
      throw fault.field('cwd', 'is no folder')
    case 'EAGAIN':
    case 'EMFILE':
    case 'ENFILE':
      throw fault.tooMany(`the session can start no more processes now (${error.code})`, 1)
    case 'ENOMEM':
    case 'ENOSPC':
      throw fault.unavailable(`the session has no memory left for another process (${error.code})`, error)
    default:
      throw error
  }
}
