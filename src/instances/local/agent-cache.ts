// Compiled code of the agent and of runners, made once and shared read-only by all instances: half of an agent's start, and a third of its
// memory, is otherwise the stripping and compiling of the same files.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { PACKAGE_DIR } from '../../base/paths.ts'
import type { Command } from '../../base/unprivileged.ts'
import { instanceUser } from '../../base/user.ts'
import { within } from '../../base/wait.ts'
import { writeGuestEtc } from './guest-etc.ts'
import { sandboxCommand } from './sandbox.ts'
import type { Trash } from './trash.ts'

/** Loading everything takes 0.3 s. */
const PREPARE_MS = 60_000

/** Programs that load all of the agent's code, and all of a runner's. */
const PREPARE_ENTRIES = ['agent/prepare.ts', 'runner/prepare.ts']

/**
 * Gives the folder with the compiled code for this Node and this source, making it first when there is none.
 * V8 checks each entry against the file it was made of, so an old folder could cost time but never run old code.
 * It is made in a sandbox like an instance's (same paths, same uid), where nothing of a session has ever been.
 */
export async function agentCache(root: string, trash: Trash, signal: AbortSignal): Promise<string> {
  const name = `agent-cache-${fingerprint()}`
  const dir = join(root, name)
  if (existsSync(dir)) return dir
  const work = join(root, `${name}.new`)
  await trash.discard(work)
  const [home, cache] = [join(work, 'home'), join(work, 'cache')]
  const user = instanceUser(name)
  for (const folder of [work, home, cache]) mkdirSync(folder, { mode: 0o700 })
  if (user) for (const folder of [home, cache]) chownSync(folder, user.uid, user.gid)
  const network = { pasta: [], routes: '', resolvConf: '', hosts: '127.0.0.1 localhost\n' }
  const spec = {
    id: name,
    viewport: { width: 1, height: 1, refresh_rate: 1 },
    maxScreen: { width: 1, height: 1 },
    chromium: '',
    logLevel: 'silent',
    graceSeconds: 0,
  }
  const etcFiles = writeGuestEtc(join(work, 'etc'), network)
  try {
    for (const entry of PREPARE_ENTRIES) {
      const command = sandboxCommand({ spec, dir: work, etcFiles, network, user, groups: [], cache: { dir: cache, writable: true }, entry })
      await finished(command, signal)
    }
    open(cache)
    for (const old of readdirSync(root).filter((entry) => entry.startsWith('agent-cache-') && !entry.endsWith('.new'))) await trash.discard(join(root, old))
    renameSync(cache, dir)
    return dir
  } finally {
    await trash.discard(work)
  }
}

/** Runs a program of ours in a sandbox to its end. */
async function finished({ file, args }: Command, signal: AbortSignal): Promise<void> {
  const child = spawn(file, args, { cwd: '/', env: { PATH: process.env.PATH }, stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()))
  try {
    const [code] = await within("the agent's code to be compiled", PREPARE_MS, once(child, 'close'), signal)
    if (code !== 0) throw new Error(`the sandbox does not work on this machine (cob doctor says more): ended with ${code}\n${said.slice(-2000)}`)
  } finally {
    child.kill('SIGKILL')
  }
}

/** What the compiled code depends on: Node, the packages, our files. */
function fingerprint(): string {
  const hash = createHash('sha256').update(process.version + process.arch)
  hash.update(readFileSync(join(PACKAGE_DIR, 'package-lock.json')))
  for (const folder of ['agent', 'base', 'http', 'runner'])
    for (const file of readdirSync(join(PACKAGE_DIR, 'src', folder), { recursive: true, encoding: 'utf8' })
      .toSorted()
      .filter((path) => path.endsWith('.ts'))) {
      const { size, mtimeMs } = statSync(join(PACKAGE_DIR, 'src', folder, file))
      hash.update(`${folder}/${file} ${size} ${mtimeMs}\n`)
    }
  return hash.digest('hex').slice(0, 16)
}

/** Makes a tree readable for every instance's user, and writable for none. */
function open(path: string): void {
  const isFolder = statSync(path).isDirectory()
  if (process.getuid?.() === 0) chownSync(path, 0, 0)
  chmodSync(path, isFolder ? 0o755 : 0o644)
  if (isFolder) for (const entry of readdirSync(path)) open(join(path, entry))
}
