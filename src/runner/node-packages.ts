// Installs the packages of a Node app with the package manager of its lockfile. All managers run through npm, which is always there.
import { existsSync } from 'node:fs'
import { readFile, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { BuildFailed, NPM, type Tools } from './tools.ts'

const INSTALL_MS = 10 * 60_000

interface Manager {
  name: 'bun' | 'pnpm' | 'yarn' | 'npm'
  lockfile: string
}
const MANAGERS: readonly Manager[] = [
  { name: 'bun', lockfile: 'bun.lock' },
  { name: 'bun', lockfile: 'bun.lockb' },
  { name: 'pnpm', lockfile: 'pnpm-lock.yaml' },
  { name: 'yarn', lockfile: 'yarn.lock' },
  { name: 'npm', lockfile: 'package-lock.json' },
  { name: 'npm', lockfile: 'npm-shrinkwrap.json' },
]

/** Installs what the app in `code`/`folder` needs. The lockfile may be in a parent folder, as in a repository of several packages. */
export async function installNode(code: string, folder: string, tools: Tools): Promise<void> {
  const root = join(code, folder)
  const { managers, at } = findLockfiles(code, root)
  if (managers.length === 0) {
    if (!existsSync(join(root, 'package.json'))) return tools.say('no package.json: nothing to install')
    return npm(['install', '--no-package-lock'], root, tools)
  }
  const packageManager = await readPackageManager(at)
  const named = managers.filter(({ name }) => packageManager?.startsWith(`${name}@`))
  const [first, ...others] = named.length > 0 ? named : managers
  // People change the package manager and leave the old lockfile; official templates did.
  const other = others.find(({ name }) => name !== first!.name)
  let mismatched: Manager | undefined
  let failure: unknown
  for (const manager of other ? [first!, other] : [first!]) {
    if (failure !== undefined) {
      tools.say(`${first!.lockfile} does not work; there is ${other!.lockfile}, too`)
      await rm(join(at, 'node_modules'), { recursive: true, force: true })
    }
    try {
      return await installBy(manager, at, packageManager, 'locked', tools)
    } catch (error) {
      if (!(error instanceof BuildFailed)) throw error
      if (MISMATCH.test(error.message)) mismatched ??= manager
      failure ??= error
    }
  }
  if (!mismatched) throw failure
  tools.say(`WARNING: ${mismatched.lockfile} does not match package.json; installing by package.json. Run "${mismatched.name} install" and deploy again`)
  await rm(join(at, 'node_modules'), { recursive: true, force: true })
  await installBy(mismatched, at, packageManager, 'loose', tools)
}

/** The messages of npm, pnpm, yarn 1, yarn 2 and later, and bun when the lockfile does not match package.json. */
const MISMATCH =
  /can only install packages when your package\.json and .* are in sync|ERR_PNPM_OUTDATED_LOCKFILE|lockfile needs to be updated|lockfile would have been modified|lockfile had changes, but lockfile is frozen/i

/** `locked` installs exactly the lockfile's versions or fails; `loose` keeps those that still fit package.json. */
type Strictness = 'locked' | 'loose'

async function installBy({ name, lockfile }: Manager, at: string, packageManager: string | undefined, strictness: Strictness, tools: Tools): Promise<void> {
  const isLocked = strictness === 'locked'
  const text = await readFile(join(at, lockfile), 'utf8')
  // Validated, because it becomes part of a command line.
  const wanted = new RegExp(`^${name}@(\\d+\\.\\d+\\.\\d+[\\w.-]*)`).exec(packageManager ?? '')?.[1]
  switch (name) {
    case 'npm':
      return npm(isLocked ? ['ci'] : ['install'], at, tools)
    case 'bun':
      return through(`bun@${wanted ?? '1'}`, ['bun', 'install', ...(isLocked ? ['--frozen-lockfile'] : [])], at, tools)
    case 'pnpm': {
      // Always give the flag: with CI set, as here, pnpm's default is a frozen lockfile.
      const frozen = isLocked ? '--frozen-lockfile' : '--no-frozen-lockfile'
      const store = ['--store-dir', join(tools.cache, 'pnpm'), '--package-import-method', 'copy']
      return through(`pnpm@${wanted ?? pnpmFor(text)}`, ['pnpm', 'install', frozen, '--reporter=append-only', ...store], at, tools)
    }
    case 'yarn': {
      if (text.includes('# yarn lockfile v1'))
        return through(`yarn@${classic(wanted)}`, ['yarn', 'install', ...(isLocked ? ['--frozen-lockfile'] : []), '--non-interactive'], at, tools)
      return through(`@yarnpkg/cli-dist@${wanted ?? berryFor(text)}`, ['yarn', 'install', isLocked ? '--immutable' : '--no-immutable'], at, tools, {
        YARN_NODE_LINKER: 'node-modules',
      })
    }
  }
}

function findLockfiles(code: string, root: string): { managers: Manager[]; at: string } {
  for (let at = root; ; at = dirname(at)) {
    const managers = MANAGERS.filter(({ lockfile }) => existsSync(join(at, lockfile)))
    if (managers.length > 0 || at === code) return { managers, at }
  }
}

const npm = (args: string[], cwd: string, tools: Tools): Promise<void> => install(`npm ${args[0]}`, args, cwd, tools)

/** Lets npm download another package manager and run it. */
async function through(spec: string, command: string[], cwd: string, tools: Tools, env: Record<string, string> = {}): Promise<void> {
  await install(`${command.slice(0, 3).join(' ')} (${spec})`, ['exec', '--yes', `--package=${spec}`, '--', ...command], cwd, tools, env)
}

async function install(what: string, args: string[], cwd: string, tools: Tools, env: Record<string, string> = {}): Promise<void> {
  // Bundling needs development dependencies: types of plugins, a tsconfig to extend. NODE_ENV=production would skip them.
  await tools.must(process.execPath, [NPM, ...args], { what, cwd, ms: INSTALL_MS, env: { NODE_ENV: undefined, ...env } })
}

async function readPackageManager(at: string): Promise<string | undefined> {
  if (!existsSync(join(at, 'package.json'))) throw new BuildFailed('there is a lockfile, but no package.json beside it')
  try {
    const { packageManager } = JSON.parse(await readFile(join(at, 'package.json'), 'utf8')) as { packageManager?: unknown }
    return typeof packageManager === 'string' ? packageManager : undefined
  } catch (error) {
    throw new BuildFailed(`package.json is not JSON: ${(error as Error).message}`)
  }
}

/** The pnpm version that can read this lockfile format. */
function pnpmFor(lockfile: string): string {
  const version = /^lockfileVersion:\s*'?(\d+)/m.exec(lockfile)?.[1]
  return version === '5' ? '7' : version === '6' ? '8' : '10'
}

const classic = (wanted: string | undefined): string => (wanted?.startsWith('1.') ? wanted : '1')

function berryFor(lockfile: string): string {
  const version = Number(/^__metadata:\s*\n\s+version:\s*(\d+)/m.exec(lockfile)?.[1] ?? 8)
  return version <= 6 ? '3' : '4'
}
