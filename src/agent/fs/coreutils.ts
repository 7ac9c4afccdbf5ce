// Runs a program of coreutils; ends it when the caller disconnects.
import { spawn } from 'node:child_process'
import { runToEnd } from '../../base/processes.ts'
import { NO_LIMIT_MS } from '../../base/wait.ts'
import { fault } from '../../http/fault.ts'
import { fileFault } from './faults.ts'

/** Messages of strerror(3) with their own fault; others become "could not". */
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
  const { status, said: words } = await runToEnd(program, NO_LIMIT_MS, child, signal)
  if (status === 0) return
  const known = Object.keys(CODES).find((text) => words.includes(text))
  throw known ? fileFault(Object.assign(new Error(words), { code: CODES[known] }), field, path) : fault.field(field, `could not be done: ${words.trim()}`)
}
