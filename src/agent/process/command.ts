// Turns a request into the command line, environment and folder of a process; invalid requests are refused before anything starts.
import { accessSync, constants, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { fault, type FieldProblem } from '../../http/fault.ts'
import type { Exec } from './contract.ts'
import { identityOf, type Identity } from './users.ts'

export interface Command {
  /** File and arguments. */
  line: string[]
  env: Record<string, string>
  cwd: string
}

/** Defaults for fields that the caller does not give. */
export interface Defaults {
  env: Record<string, string>
  cwd: string
}

/** The uid that everything in an instance runs as; it needs no user namespace. */
const KERNEL = 1000

/** Linux's limit of one argument or variable, without its terminating NUL (MAX_ARG_STRLEN). */
const MAX_TEXT_BYTES = 131_072 - 1

/** @throws 400 naming `cwd`, `command`, `args`, `env` or `as_user` */
export function commandOf(asked: Omit<Exec, 'timeout_sec'>, defaults: Defaults): Command {
  const problems = tooLong(asked)
  if (problems.length > 0) throw fault.invalid(problems)
  const cwd = asked.cwd ?? defaults.cwd
  if (!isFolder(cwd)) throw fault.field('cwd', `there is no folder "${cwd}"`)
  const identity = identityOf(asked)
  const env = { ...defaults.env, ...variablesOf(identity, defaults.env.PATH), ...asked.env }
  findProgram(asked.command, cwd, env.PATH ?? '')
  return { line: [...becoming(identity), asked.command, ...asked.args], env, cwd }
}

/**
 * The command that runs its program as another user, in a user namespace that maps the wanted uid to ours. Inside, the program has
 * that uid; to everything outside, files included, it stays `kernel`. So root owns the session's files and may write where the
 * session may (instances/local/places.ts). Its capabilities apply only to what the namespace owns: it cannot write other system
 * files, bind a port below 1024, change to a third user or give files to one, because no other uid is mapped.
 */
function becoming(identity: Identity | undefined): string[] {
  if (!identity || (identity.uid === KERNEL && identity.gid === KERNEL)) return []
  return ['/usr/bin/unshare', '--user', `--map-user=${identity.uid}`, `--map-group=${identity.gid}`, '--']
}

// HOME stays /home/kernel, the folder that other users can write to; only root has /root.
function variablesOf(identity: Identity | undefined, path = ''): Record<string, string> {
  if (identity === undefined) return {}
  const name = identity.name ?? String(identity.uid)
  return { USER: name, LOGNAME: name, ...(identity.uid === 0 && { HOME: '/root', PATH: `${path}:/usr/sbin:/sbin` }) }
}

function tooLong({ command, args, env }: Pick<Exec, 'command' | 'args' | 'env'>): FieldProblem[] {
  const texts = [
    ['command', command] as const,
    ...args.map((arg, index) => [`args.${index}`, arg] as const),
    ...Object.entries(env).map(([name, value]) => [`env.${name}`, `${name}=${value}`] as const),
  ]
  return texts
    .filter(([, text]) => Buffer.byteLength(text) > MAX_TEXT_BYTES)
    .map(([field]) => ({ field, problem: `is longer than ${MAX_TEXT_BYTES} bytes, more than Linux takes` }))
}

/** Searches PATH as execvp(3) does. @throws 400 naming `command` */
function findProgram(command: string, cwd: string, path: string): void {
  const places = command.includes('/') ? [resolve(cwd, command)] : path.split(':').map((folder) => resolve(cwd, folder, command))
  const files = places.filter(isFile)
  if (files.some(isExecutable)) return
  if (files.length > 0) throw fault.field('command', `"${files[0]!}" is not executable`)
  const hint = /\s/.test(command) ? '; it is not run through a shell: for one, the command is "sh" and args are ["-c", "…"]' : ''
  throw fault.field('command', `there is no program "${command}"${command.includes('/') ? '' : ' in PATH'}${hint}`)
}

const isFolder = (path: string): boolean => attempt(() => statSync(path).isDirectory() && (accessSync(path, constants.X_OK), true))
const isFile = (path: string): boolean => attempt(() => statSync(path).isFile())
const isExecutable = (path: string): boolean => attempt(() => (accessSync(path, constants.X_OK), true))

function attempt(look: () => boolean): boolean {
  try {
    return look()
  } catch {
    return false
  }
}
