// The shell script of an app's sandbox. It starts the app's process in parallel with the runner, because a run needs both and starting them in
// sequence would take longer. Three pipes connect them.
import { writeSync } from 'node:fs'
import { READ_KEYS } from '../base/access.ts'
import type { RunnerSpec } from './contract.ts'
import { RUNNER_PATHS, CODE, COMPILE_CACHE, MANIFEST, VENV, type RunnerPaths } from './limits.ts'

/** The runner's ends of the pipes: the app's output, its loader's reports, and its task. */
export const RUN_FDS = { output: 5, reports: 7, task: 8 } as const

/** Where Node and our code are in the sandbox. */
export interface RunnerPrograms {
  node: string
  /** The command line of Node for the runner itself, without the script. */
  own: readonly string[]
  /** The folder of this file. */
  runner: string
}

/** The script for `/bin/sh -c`; its standard input is the listening socket. The folder of the spec must be writable. */
export function runnerScript(kind: RunnerSpec['kind'], programs: RunnerPrograms, paths: RunnerPaths = RUNNER_PATHS): string {
  const supervisor = `${READ_KEYS}\nexec ${programs.own.join(' ')} ${programs.runner}/main.ts`
  return kind === 'run' ? `${startLoader(paths, programs)}\n${supervisor}` : supervisor
}

/**
 * Opening a named pipe for reading and writing does not block. After that each end gets its own descriptor, so that end-of-file works: only the app
 * and what it starts may hold the writing end of its output. Descriptor 3 is open when the runner gets keys, which the app must not get. Until the
 * runner has them they can be read from this shell, so the app then waits for a first line in its task's pipe (letAppStart). When memory is short, the
 * kernel should kill the app's processes first, so that the runner can report the failure.
 */
const startLoader = (paths: RunnerPaths, { node, runner }: RunnerPrograms): string => `set -u
cd ${folderOf(paths.spec)}
mkfifo -m 600 output reports task
exec 9<>output 4>output 5<output 9<>reports 6>reports 7<reports 9<>task 8>task 9<task
keys=
{ true <&3 && keys=yes; } 2>/dev/null
(
  (
    [ -z "$keys" ] || read -r started <&4 || exit
    { echo 900 >/proc/self/oom_score_adj; } 2>/dev/null
    [ ! -r environment ] || . ./environment
    export NODE_COMPILE_CACHE=${paths.app}/${COMPILE_CACHE} PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
    read -r manifest <${paths.app}/${MANIFEST}
    cd ${paths.app}/${CODE}
    case $manifest in
      '{"language":"python"'*) exec ${paths.app}/${VENV}/bin/python ${runner}/loader.py run ${paths.app} ${paths.spec} ;;
      *) exec ${node} ${runner}/loader.mjs run ${paths.app} ${paths.spec} ;;
    esac
  ) </dev/null >&4 2>&1 3>&6 6>&- 4<&9 9<&- &
  exec 4>&-
  wait $!
  printf '\\n{"type":"exit","code":%d}\\n' $? >&6
) 3<&- 5<&- 7<&- 8>&- &
exec 4>&- 6>&- 9<&-`

const folderOf = (path: string): string => path.slice(0, path.lastIndexOf('/'))

/** Lets the app's process start. For a runner with keys, call it after it has read them; without keys the app does not wait. */
export function letAppStart(): void {
  try {
    writeSync(RUN_FDS.task, '\n')
  } catch (error) {
    // The app's shell has ended, which is reported as the end of the app.
    if ((error as NodeJS.ErrnoException).code !== 'EPIPE') throw error
  }
}

/**
 * The file `environment` beside a run's spec, in shell syntax: variables that must be set when the app's process starts (NODE_OPTIONS, PYTHONPATH).
 * The loader sets variables whose names a shell does not accept.
 */
export function environmentFile(env: Record<string, string>): string {
  return Object.entries(env)
    .filter(([name]) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && !SHELL_OWN.has(name))
    .map(([name, value]) => `export ${name}='${value.replaceAll('\0', '').replaceAll("'", `'\\''`)}'\n`)
    .join('')
}

/** Read-only in some shells, or used by the shell itself. */
const SHELL_OWN = new Set(['UID', 'EUID', 'PPID', 'SHELLOPTS', 'BASHOPTS', 'BASH_VERSINFO', 'IFS', 'OPTIND'])
