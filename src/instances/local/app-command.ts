// The command line of an app's sandbox: isolated like an instance's, without a display. Its code is read-only, except while it is built or unpacked.
import { basename, dirname } from 'node:path'
import { PACKAGE_DIR } from '../../base/paths.ts'
import { asUser, type Command } from '../../base/unprivileged.ts'
import type { User } from '../../base/user.ts'
import { runnerScript } from '../../runner/command.ts'
import { RUNNER_PATHS, type RunnerSpec } from '../../runner/contract.ts'
import type { NetworkPlan } from './network.ts'
import { CACHE_DIR, closedNode, closedRoot, enclosed, NODE_PATH, ownCode, setEnvironment, type Bounds } from './sandbox.ts'

export interface AppSandboxPlan {
  kind: RunnerSpec['kind']
  /**
   * Folders on the host. The runner finds `spec` in /run/cob. `apps` holds the code of all apps; only the folder that the link `app` in `spec` points
   * to is visible inside. `downloads` is for builds.
   */
  folders: { home: string; memory: string; etc: string; spec: string; apps: string; cache: string; downloads: string | undefined }
  bounds: Bounds
  /** Shell lines that run at the beginning of the start (storage.ts). */
  before: string
  etcFiles: string[]
  network: NetworkPlan
  user: User | undefined
  /** cgroup.procs files to enter. */
  groups: string[]
}

/**
 * The command that starts the sandbox, with the same guarantees as an instance's (sandbox.ts). No secret is in it. It sets up the network and then waits at the
 * pipe `go`, so half of a start is done before a run is requested.
 */
export function appCommand({ kind, folders, bounds, before, etcFiles, network, user, groups }: AppSandboxPlan): Command {
  const { downloads, ...always } = folders
  const all = { code: PACKAGE_DIR, node: dirname(process.execPath), ...always, ...(downloads !== undefined && { downloads }) }
  return asUser(
    user,
    all,
    (seen) =>
      enclosed(
        seen,
        network,
        bounds,
        `timeout ${UNUSED_S} head -c 3 '${seen.spec}/${GO}' >/dev/null || exit 1`,
        [
          ...closedRoot(seen.etc!, seen.memory!, etcFiles, network),
          '--bind',
          seen.home!,
          '/home/kernel',
          // The runner reads them. The pipes between the runner and the app are made next to them, in memory.
          ...SPEC_FILES.flatMap((name) => ['--ro-bind-try', `${seen.spec}/${name}`, `${dirname(RUNNER_PATHS.spec)}/${name}`]),
          kind === 'build' || kind === 'unpack' ? '--bind' : '--ro-bind',
          `${seen.spec}/${APP_LINK}`,
          RUNNER_PATHS.app,
          ...(seen.downloads === undefined ? [] : ['--bind', seen.downloads, RUNNER_PATHS.cache]),
          ...ownCode(seen, false),
          '--remount-ro',
          '/',
          '--chdir',
          '/home/kernel',
          ...setEnvironment(ENVIRONMENT),
        ],
        [runnerScript(kind, { node: NODE_PATH, own: closedNode(folders.cache), runner: '/opt/cob/src/runner' })],
      ),
    groups,
    before,
  )
}

/** The folder with a sandbox's input: the spec on the host, and the runner's view of it inside. */
export const SPEC_FILES = [basename(RUNNER_PATHS.spec), 'environment'] as const

/** A prepared sandbox that gets no input for this long ends. Its service must have died, because a live one would have ended it earlier (apps.ts). */
const UNUSED_S = 20 * 60

/** Names in the spec folder: the link to the app's code, and the pipe at which a prepared sandbox waits for its input. */
export const APP_LINK = 'app'
export const GO = 'go'

/** Variables of every program inside. The app's own variables are in the spec, because every user of the host can read a command line. */
const ENVIRONMENT = {
  HOME: '/home/kernel',
  USER: 'kernel',
  LANG: 'C.UTF-8',
  PATH: '/usr/local/bin:/usr/bin:/bin:/opt/node',
  TMPDIR: '/tmp',
  NODE_COMPILE_CACHE: CACHE_DIR,
}
