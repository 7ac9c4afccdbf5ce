// The agent's bundle (program.ts), and compiled code of it and of runners, made once and shared read-only by all instances. Without it, half of an
// agent's start and a third of its memory go into stripping and compiling the same files.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../../base/config.ts'
import { runToEnd } from '../../base/processes.ts'
import { newId } from '../../base/ids.ts'
import { PACKAGE_DIR } from '../../base/paths.ts'
import type { Command } from '../../base/unprivileged.ts'
import { instanceUser } from '../../base/user.ts'
import { writeGuestEtc } from './guest-etc.ts'
import { makePlaces } from './places.ts'
import { NO_NETWORK } from './network.ts'
import { bundleAgent } from './program.ts'
import { AGENT_ENTRY, PROGRAM, sandboxCommand } from './sandbox.ts'
import { diskOf, diskQuota, makeDisk, makeMemoryFolders } from './storage.ts'
import type { Trash } from './trash.ts'

/** Loading everything takes 0.3 s, a run of the agent with its browser a second. */
const PREPARE_MS = 60_000
/** No compilation takes this long. */
const LEFT_MS = 10 * 60_000

/** The run executes only our own code, so it needs few limits. */
const COMPILING = diskQuota(1024)

/** Programs that load the code of what an agent starts, and of a runner; and the agent itself, which ends after its rehearsal (agent/rehearsal.ts). */
const PREPARE_ENTRIES = ['agent/prepare.ts', 'runner/prepare.ts', AGENT_ENTRY]

type Browsers = Pick<Config, 'chromium' | 'headlessShell'>

/**
 * Returns the folder with the compiled code for this Node and this source, and makes it first when it does not exist. V8 checks each entry
 * against its source file. The code is compiled in a sandbox like an instance's (same paths, same uid) that no session has ever used; the browser
 * of the agent's run shows an empty page, without a network. It begins as a lean one, if the machine has that, and becomes a full one.
 */
export async function agentCache(root: string, { chromium, headlessShell }: Browsers, trash: Trash, signal: AbortSignal): Promise<string> {
  const lean = existsSync(headlessShell) ? { program: headlessShell, userAgent: 'trial' } : undefined
  const name = `agent-cache-${fingerprint(lean !== undefined)}`
  const dir = join(root, name)
  if (existsSync(dir)) return dir
  // A separate folder: another service may be compiling for the same data directory. Folders of killed services are old.
  const work = join(root, `${name}.${newId()}.new`)
  for (const left of readdirSync(root).filter((entry) => entry.startsWith('agent-cache-') && entry.endsWith('.new')))
    if (Date.now() - (statSync(join(root, left), { throwIfNoEntry: false })?.mtimeMs ?? Infinity) > LEFT_MS) await trash.discard(join(root, left))
  const [home, cache] = [join(diskOf(work), 'home'), join(work, 'cache')]
  const user = instanceUser(name)
  mkdirSync(work, { mode: 0o700 })
  await makeDisk(work, COMPILING, false)
  await makeMemoryFolders(work)
  for (const folder of [home, cache]) mkdirSync(folder, { mode: 0o700 })
  if (user) for (const folder of [home, cache]) chownSync(folder, user.uid, user.gid)
  const network = NO_NETWORK
  const spec = {
    id: name,
    viewport: { width: 1280, height: 800, refresh_rate: 60 },
    maxScreen: { width: 1280, height: 800 },
    chromium,
    lean,
    logLevel: 'warn',
    apiPorts: [],
    graceSeconds: 0,
    isTrial: true,
  }
  const etcFiles = await writeGuestEtc(join(work, 'etc'), network)
  try {
    await bundleAgent(join(cache, PROGRAM), signal)
    makePlaces(join(diskOf(work), 'places'), user, { folders: [], links: [] })
    for (const entry of PREPARE_ENTRIES) {
      const bounds = { memoryBytes: COMPILING.bytes, pids: 1000, fileBytes: undefined, nice: 0 }
      const plan = { spec, dir: work, bounds, before: '', etcFiles, network, user, groups: [], cache: { dir: cache, writable: true }, entry }
      const command = sandboxCommand(plan)
      await finished(command, signal)
    }
    open(cache)
    for (const old of readdirSync(root).filter((entry) => entry.startsWith('agent-cache-') && entry !== name && !entry.endsWith('.new')))
      await trash.discard(join(root, old))
    try {
      renameSync(cache, dir)
    } catch (error) {
      if (!existsSync(dir)) throw error // otherwise the other service was first
    }
    return dir
  } finally {
    await trash.discard(work)
  }
}

/** Runs one of our programs in a sandbox to its end. */
async function finished({ file, args }: Command, signal: AbortSignal): Promise<void> {
  const child = spawn(file, args, { cwd: '/', env: { PATH: process.env.PATH }, stdio: ['ignore', 'pipe', 'pipe'] })
  const { status, said } = await runToEnd("the agent's code to be compiled", PREPARE_MS, child, signal)
  if (status !== 0) throw new Error(`the sandbox does not work on this machine (run cob doctor for details): ended with ${status}\n${said}`)
}

/** The inputs of the compiled code: Node, the packages, our files, and whether the code of lean sessions is used. */
function fingerprint(isLean: boolean): string {
  const hash = createHash('sha256').update(`${process.version}${process.arch} ${isLean}`)
  hash.update(readFileSync(join(PACKAGE_DIR, 'package-lock.json')))
  for (const folder of ['agent', 'base', 'http', 'runner', 'instances/local'])
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
