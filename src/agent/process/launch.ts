// Starts a program with pipes: passes its output out and its input in, and reports its exit as a shell would.
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
 * A program that has ended may have left child processes that keep its output open. Its own output is in the pipe already, so the output counts as
 * complete after this time; later output of the child processes is dropped.
 */
const DRAIN_MS = 50

export interface Launched {
  pid: number
  /** The exit code, or 128 + the signal's number; settles after all output of the program has been delivered. */
  exited: Promise<number>
  /** Undefined for a program without input. */
  sink: Sink | undefined
  resize?: (size: { rows: number; cols: number }) => void
}

/** Called for each piece of output. Its buffer is reused: copy what you keep. */
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
  ours.move() // the program owns them now
  // The next write reports that a program has closed its input.
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
    // A program that could not be started has no pid; the error event comes in the next turn.
    if (child.pid === undefined) throw (await once(child, 'error'))[0]
    return child
  } catch (error) {
    return refuse(error as NodeJS.ErrnoException)
  }
}

/** Resolves at the end of a stream. Keep reading when nobody listens any more: otherwise a child process that still writes would block for ever. */
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
  // A busy agent may not have read its pipes in that time; these turns of the event loop let it.
  for (let turns = 0; turns < 3; turns++) await new Promise(setImmediate)
}

/** Translates the kernel's refusal to start a program. @throws always */
export function refuse(error: NodeJS.ErrnoException): never {
  switch (error.code) {
    case 'E2BIG':
      throw fault.field('args', 'are too long together with the environment (a limit of Linux)')
    case 'ENOTDIR':
      throw fault.field('cwd', 'is not a folder')
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
