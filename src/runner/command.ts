// The shell line of an app's sandbox. It starts the app's process beside the runner, not behind it: a run waits for the slower
// of the two. Between them are three pipes.
import { RUNNER_PATHS, CODE, COMPILE_CACHE, MANIFEST, VENV, type RunnerPaths } from './limits.ts'

/** The runner's ends of the pipes: what the app prints, what its loader reports, where its task goes. */
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
export function runnerScript(kind: 'build' | 'run', programs: RunnerPrograms, paths: RunnerPaths = RUNNER_PATHS): string {
  const supervisor = `exec ${programs.own.join(' ')} ${programs.runner}/main.ts`
  return kind === 'build' ? supervisor : `${startLoader(paths, programs)}\n${supervisor}`
}

/**
 * Opened for reading and writing, a named pipe opens at once; then it gets one descriptor for each end, and its end can be seen.
 * Of all processes the app's are to be killed first when memory is short, so that there is somebody left to tell.
 */
const startLoader = (paths: RunnerPaths, { node, runner }: RunnerPrograms): string => `set -u
cd ${folderOf(paths.spec)}
mkfifo -m 600 output reports task
exec 3<>output 4>output 5<output 3<>reports 6>reports 7<reports 3<>task 8>task 9<task 3>&-
(
  (
    { echo 900 >/proc/self/oom_score_adj; } 2>/dev/null
    [ ! -r environment ] || . ./environment
    export NODE_COMPILE_CACHE=${paths.app}/${COMPILE_CACHE} PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
    read -r manifest <${paths.app}/${MANIFEST}
    cd ${paths.app}/${CODE}
    case $manifest in
      '{"language":"python"'*) exec ${paths.app}/${VENV}/bin/python ${runner}/loader.py run ${paths.app} ${paths.spec} ;;
      *) exec ${node} ${runner}/loader.mjs run ${paths.app} ${paths.spec} ;;
    esac
  ) </dev/null >&4 2>&1 3>&6 6>&- 4<&9 9<&-
  printf '\\n{"type":"exit","code":%d}\\n' $? >&6
) 5<&- 7<&- 8>&- &
exec 4>&- 6>&- 9<&-`

const folderOf = (path: string): string => path.slice(0, path.lastIndexOf('/'))

/**
 * The file `environment` beside a run's spec, as a shell reads it: variables that must be there when the app's process starts
 * (NODE_OPTIONS, PYTHONPATH). Names that no shell takes are set by the loader.
 */
export function environmentFile(env: Record<string, string>): string {
  return Object.entries(env)
    .filter(([name]) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && !SHELL_OWN.has(name))
    .map(([name, value]) => `export ${name}='${value.replaceAll('\0', '').replaceAll("'", `'\\''`)}'\n`)
    .join('')
}

/** Read-only in some shells, or how the shell itself works. */
const SHELL_OWN = new Set(['UID', 'EUID', 'PPID', 'SHELLOPTS', 'BASHOPTS', 'BASH_VERSINFO', 'IFS', 'OPTIND'])
