// The command line of an app's sandbox: closed like an instance's, without a display; its code is read-only, but for its build.
import { dirname } from 'node:path'
import { PACKAGE_DIR } from '../../base/paths.ts'
import { asUser, type Command } from '../../base/unprivileged.ts'
import type { User } from '../../base/user.ts'
import { runnerScript } from '../../runner/command.ts'
import { RUNNER_PATHS } from '../../runner/contract.ts'
import type { NetworkPlan } from './network.ts'
import { CACHE_DIR, closedRoot, enclosed, ownCode, setEnvironment } from './sandbox.ts'

export interface AppSandboxPlan {
  kind: 'build' | 'run'
  /**
   * Folders on the host. `spec` is what the runner finds in /run/cob; `apps` holds all deployments' code, of which only the one
   * that the link `app` in `spec` leads to gets in; `downloads` is for builds.
   */
  folders: { home: string; etc: string; spec: string; apps: string; cache: string; downloads: string | undefined }
  etcFiles: string[]
  network: NetworkPlan
  user: User | undefined
  /** cgroup.procs files to enter. */
  groups: string[]
}

/**
 * The command that starts the sandbox; what is certain of an instance's (sandbox.ts) is certain of this. No secret is in it.
 * It makes the network and then waits at the pipe `go`: half of a start is done before anybody asks for a run.
 */
export function appCommand({ kind, folders, etcFiles, network, user, groups }: AppSandboxPlan): Command {
  const { downloads, ...always } = folders
  const all = { code: PACKAGE_DIR, node: dirname(process.execPath), ...always, ...(downloads !== undefined && { downloads }) }
  return asUser(
    user,
    all,
    (seen) =>
      enclosed(network, `timeout ${UNUSED_S} head -c 3 '${seen.spec}/${GO}' >/dev/null || exit 1`, [
        ...closedRoot(seen.etc!, etcFiles, network),
        '--bind',
        seen.home!,
        '/home/kernel',
        // Read and written by the runner: its spec, and the pipes between it and the app.
        '--bind',
        seen.spec!,
        dirname(RUNNER_PATHS.spec),
        ...(kind === 'build'
          ? ['--bind', `${seen.spec}/${APP_LINK}`, RUNNER_PATHS.app, '--bind', seen.downloads!, RUNNER_PATHS.cache]
          : ['--ro-bind', `${seen.spec}/${APP_LINK}`, RUNNER_PATHS.app]),
        ...ownCode(seen, false),
        '--remount-ro',
        '/',
        '--chdir',
        '/home/kernel',
        ...setEnvironment(ENVIRONMENT),
        '--',
        '/bin/sh',
        '-c',
        runnerScript(kind),
      ]),
    groups,
  )
}

/** A sandbox that is told nothing for this long ends: its service has died, or it would have let it go (apps.ts). */
const UNUSED_S = 20 * 60

/** In the folder of the spec: the link to the deployment's code, and the pipe that a sandbox waits at until it is told which. */
export const APP_LINK = 'app'
export const GO = 'go'

/** What everything inside has; the app's own variables are in the spec, for a command line can be read by everybody on the host. */
const ENVIRONMENT = {
  HOME: '/home/kernel',
  USER: 'kernel',
  LANG: 'C.UTF-8',
  PATH: '/usr/local/bin:/usr/bin:/bin:/opt/node',
  TMPDIR: '/tmp',
  NODE_COMPILE_CACHE: CACHE_DIR,
}
