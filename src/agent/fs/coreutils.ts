// Runs a program of coreutils; ends it when the caller leaves.
import { spawn } from 'node:child_process'
import { addAbortListener, once } from 'node:events'
import { fault } from '../../http/fault.ts'
import { fileFault } from './faults.ts'

/** A program's error message is cut at this length, in characters. */
const MAX_WORDS = 4096

/** Messages of strerror(3) that have a fault of their own; others become "could not". */
const CODES: Record<string, string> = {
  'No space left on device': 'ENOSPC',
  'Disk quota exceeded': 'EDQUOT',
  'Permission denied': 'EACCES',
  'Operation not permitted': 'EPERM',
  'Read-only file system': 'EROFS',
  'Device or resource busy': 'EBUSY',
}

/** Runs a program until it exits. @throws a fault that names `field`, with the program's error message */
export async function run(program: string, args: readonly string[], field: string, path: string, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, LC_ALL: 'C' } })
  using _aborted = addAbortListener(signal, () => void child.kill('SIGKILL'))
  let words = ''
  child.stderr.on('data', (chunk: Buffer) => (words = (words + chunk.toString()).slice(0, MAX_WORDS)))
  const [code] = (await once(child, 'close')) as [number | null]
  signal.throwIfAborted()
  if (code === 0) return
  const known = Object.keys(CODES).find((text) => words.includes(text))
  throw known ? fileFault(Object.assign(new Error(words), { code: CODES[known] }), field, path) : fault.field(field, `could not be done: ${words.trim()}`)
}
