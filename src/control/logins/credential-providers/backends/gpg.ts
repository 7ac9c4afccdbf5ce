// Decrypts with the operator's GnuPG: each time in a sandbox of its own, without network, in which the program can write nothing that stays, and of which no process is left.
import { spawn, type ChildProcess } from 'node:child_process'
import { addAbortListener, once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { killAt } from '../../../../base/processes.ts'
import { Slots } from '../../../../base/slots.ts'
import { BackendProblem } from './backend.ts'

const GPG_MS = 15_000
const MAX_OUTPUT = 256 * 1024
const MAX_COMPLAINT = 16 * 1024
/** Programs at once, of all providers. */
const running = new Slots(4)

/** What a GnuPG home has that decrypting needs. */
const KEYS = ['private-keys-v1.d', 'pubring.kbx', 'pubring.gpg', 'trustdb.gpg']
const HOME = '/home/gpg'
const PASSPHRASE_FD = 3

/**
 * bubblewrap ends everything inside with its first process, and that one with this service. So the agent that gpg starts does not stay, and a passphrase is
 * remembered by nobody.
 */
const SANDBOX = [
  '--unshare-all --die-with-parent --cap-drop ALL --clearenv',
  `--setenv PATH /usr/bin:/bin --setenv LC_ALL C --setenv HOME ${HOME}`,
  '--ro-bind /usr /usr --ro-bind-try /bin /bin --ro-bind-try /lib /lib --ro-bind-try /lib64 /lib64 --ro-bind-try /etc/ld.so.cache /etc/ld.so.cache',
  `--dev /dev --tmpfs /tmp --perms 0700 --tmpfs ${HOME}`,
].flatMap((line) => line.split(' '))

function sandboxed(home: string, program: readonly string[]): string[] {
  const keys = KEYS.filter((name) => existsSync(join(home, name))).flatMap((name) => ['--ro-bind', join(home, name), join(HOME, name)])
  return [...SANDBOX, ...keys, '--', ...program]
}

const GPG = [
  'gpg',
  '--homedir',
  HOME,
  '--no-options',
  '--batch',
  '--quiet',
  '--no-tty',
  '--trust-model',
  'always',
  '--disable-dirmngr',
  '--no-auto-key-retrieve',
]

/** What an encrypted message says. @throws BackendProblem; the signal's reason */
export function decrypt(message: Buffer, { home, passphrase }: { home: string; passphrase: string | undefined }, signal: AbortSignal): Promise<string> {
  return running.run(() => decryptNow(message, home, passphrase ?? '', signal), signal)
}

async function decryptNow(message: Buffer, home: string, passphrase: string, signal: AbortSignal): Promise<string> {
  if (!existsSync(join(home, KEYS[0]!))) throw new BackendProblem('the GnuPG home has no secret keys (private-keys-v1.d)')
  signal.throwIfAborted()
  const limit = AbortSignal.timeout(GPG_MS)
  const program = [...GPG, '--pinentry-mode', 'loopback', '--passphrase-fd', String(PASSPHRASE_FD), '--decrypt']
  // In a group of its own, which is killed as a whole: bubblewrap that is killed while it starts leaves a child that waits for it.
  const child = spawn('bwrap', sandboxed(home, program), { stdio: ['pipe', 'pipe', 'pipe', 'pipe'], detached: true })
  const kill = () => child.pid !== undefined && killAt(-child.pid)
  using _left = addAbortListener(AbortSignal.any([signal, limit]), kill)
  const [input, output, complaint, secret] = child.stdio as unknown as [Writable, Readable, Readable, Writable]
  // It may end before it has read them; its status says why.
  for (const pipe of [input, secret]) pipe.on('error', () => {})
  input.end(message)
  secret.end(`${passphrase}\n`)
  let isTooLarge = false
  const said = collect(output, MAX_OUTPUT, () => {
    isTooLarge = true
    kill()
  })
  const complained = collect(complaint, MAX_COMPLAINT, () => {})
  const status = await ended(child)
  signal.throwIfAborted()
  if (limit.aborted) throw new BackendProblem(`gpg did not decrypt the entry within ${GPG_MS / 1000} s`)
  if (isTooLarge) throw new BackendProblem(`the entry has more than ${MAX_OUTPUT} bytes, the limit`)
  if (status !== 0) throw new BackendProblem(meaning(complained()))
  return said()
}

/** When nothing of it is left that has its pipes. @throws BackendProblem when there is no such program */
async function ended(child: ChildProcess): Promise<number | null> {
  try {
    const [status] = (await once(child, 'close')) as [number | null]
    return status
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') throw new BackendProblem('bubblewrap is not installed on the machine of the service')
    throw error
  }
}

function collect(pipe: Readable, most: number, onMore: () => void): () => string {
  const chunks: Buffer[] = []
  let bytes = 0
  pipe.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes <= most) chunks.push(chunk)
    else onMore()
  })
  return () => Buffer.concat(chunks).toString('utf8')
}

/** Its own words have names of keys and of files, so they stay here. It says the same ("No secret key") when a key is missing and when the passphrase is wrong. */
function meaning(complaint: string): string {
  if (/^bwrap: execvp gpg/m.test(complaint)) return 'gpg is not installed on the machine of the service'
  if (/^bwrap:/m.test(complaint)) return 'the sandbox of gpg did not start on the machine of the service'
  if (/bad passphrase|no passphrase|no secret key/i.test(complaint)) return 'the passphrase is wrong, or the GnuPG home has no key that decrypts the entry'
  return 'gpg could not decrypt the entry'
}
