// Runs programs in the network of a running sandbox, from outside.
import { spawn } from 'node:child_process'
import { closeSync, fstatSync, openSync, readFileSync, statSync } from 'node:fs'
import { isAlive, runToEnd, type ProcessName } from '../../base/processes.ts'
import { isRoot } from '../../base/user.ts'
import { DEVICE } from './network.ts'

/** Entering a network and changing it takes 5-10 ms. */
const ENTER_MS = 10_000

/** The part of a sandbox that entering needs. */
export interface Entered {
  /** Its live processes. Some of them are in its network. */
  live(): ProcessName[]
}

/**
 * Runs a program, with `input` as its standard input, in the sandbox's network; false when none of its processes is in one. The namespaces are opened and
 * then checked before they are entered, so a reused pid cannot lead into another network, least of all the host's. @throws when the program fails
 */
export async function enter(sandbox: Entered, program: readonly string[], input = ''): Promise<boolean> {
  const ours = statSync('/proc/self/ns/net').ino
  for (const name of sandbox.live()) {
    using network = openOf(name, 'net')
    if (!network || fstatSync(network.fd).ino === ours || !hasDevice(name)) continue
    // Root may enter any network. Other users can only enter it through the user namespace that owns it.
    using user = isRoot() ? undefined : openOf(name, 'user')
    if ((!isRoot() && !user) || !isAlive(name)) continue
    const asOwner = user ? ['--user=/proc/self/fd/4', '--preserve-credentials'] : []
    await nsenter([...asOwner, '--net=/proc/self/fd/3', '--', ...program], [network.fd, ...(user ? [user.fd] : [])], input)
    return true
  }
  return false
}

/** A process in the sandbox's network. */
export function memberOf(sandbox: Entered): ProcessName | undefined {
  const ours = statSync('/proc/self/ns/net').ino
  return sandbox.live().find((name) => {
    using network = openOf(name, 'net')
    return network && fstatSync(network.fd).ino !== ours && hasDevice(name) && isAlive(name)
  })
}

function hasDevice({ pid }: ProcessName): boolean {
  try {
    return readFileSync(`/proc/${pid}/net/dev`, 'utf8').includes(`${DEVICE}:`)
  } catch {
    return false // it has ended
  }
}

function openOf({ pid }: ProcessName, space: 'net' | 'user'): ({ fd: number } & Disposable) | undefined {
  try {
    const fd = openSync(`/proc/${pid}/ns/${space}`, 'r')
    return { fd, [Symbol.dispose]: () => closeSync(fd) }
  } catch {
    return undefined // it has ended, or we may not look into it, as with pasta itself
  }
}

async function nsenter(args: string[], fds: number[], input: string): Promise<void> {
  const child = spawn('nsenter', args, { stdio: ['pipe', 'ignore', 'pipe', ...fds], cwd: '/' })
  child.stdin!.on('error', () => {}) // it ended before it had read everything; its exit code reports that
  child.stdin!.end(input)
  const { status, said } = await runToEnd('a network to be entered', ENTER_MS, child)
  if (status !== 0) throw new Error(`nsenter ended with ${status}: ${said.trim().slice(-500)}`)
}
