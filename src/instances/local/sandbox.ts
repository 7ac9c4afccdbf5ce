// The command line of an instance: pasta (network) -> bwrap (users, processes, mounts) -> agent.
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DISPLAY_LOG, DISPLAY_SOCKET, FRAMEBUFFER_DIR, xvfbCommand, type AgentSpec } from '../../agent/spec.ts'
import { PACKAGE_DIR } from '../../base/paths.ts'
import { asUser, type Command } from '../../base/unprivileged.ts'
import type { User } from '../../base/user.ts'
import { NETWORK_BATCH, SHARED_ETC } from './guest-etc.ts'
import type { NetworkPlan } from './network.ts'

export interface SandboxPlan {
  spec: AgentSpec
  /** The instance's folder on the host, with `home` and `etc` inside. */
  dir: string
  etcFiles: string[]
  network: NetworkPlan
  user: User | undefined
  /** cgroup.procs files to enter. */
  groups: string[]
  /** Compiled code of the agent (agent-cache.ts); only the run that makes it may write there. */
  cache: { dir: string; writable: boolean }
  /** The program below src/ that is run. */
  entry: string
}

/** The agent itself; the other program there is loads its code only. */
export const AGENT_ENTRY = 'agent/main.ts'

/** Where the compiled code lies inside. */
export const CACHE_DIR = '/opt/cob-cache'

/** V8's young generation: the agent makes little garbage, and 16 MB of it for each session add up. */
const SEMI_SPACE_MB = 1

/** The uid and gid of user `kernel` inside; users of the original rely on the name and on /home/kernel. */
const GUEST_ID = '1000'

/** What every sandbox here begins with: users, processes, IPC and names of its own, no capability, a system that is read-only, an /etc of its own. */
export function closedRoot(etc: string, etcFiles: readonly string[], network: NetworkPlan): string[] {
  return [
    'bwrap',
    '--unshare-user',
    '--unshare-pid',
    '--unshare-ipc',
    '--unshare-uts',
    '--unshare-cgroup-try',
    ...(network.pasta.length === 0 ? ['--unshare-net'] : []),
    '--uid',
    GUEST_ID,
    '--gid',
    GUEST_ID,
    '--hostname',
    'cob',
    '--die-with-parent',
    '--new-session',
    '--cap-drop',
    'ALL',
    '--ro-bind',
    '/usr',
    '/usr',
    ...['bin', 'sbin', 'lib', 'lib32', 'lib64'].flatMap((name) => (existsSync(`/usr/${name}`) ? ['--symlink', `usr/${name}`, `/${name}`] : [])),
    '--dir',
    '/etc',
    ...etcFiles.flatMap((name) => ['--ro-bind', `${etc}/${name}`, `/etc/${name}`]),
    ...SHARED_ETC.flatMap((name) => ['--ro-bind-try', `/etc/${name}`, `/etc/${name}`]),
    '--proc',
    '/proc',
    '--dev',
    '/dev',
    '--perms',
    '1777',
    '--tmpfs',
    '/tmp',
    '--perms',
    '0755',
    '--tmpfs',
    '/run',
    '--perms',
    '0700',
    '--dir',
    '/run/cob',
    '--dir',
    '/var/tmp',
    '--dir',
    '/var/lib',
    '--symlink',
    '/run',
    '/var/run',
  ]
}

/** Our own code and its Node, for what runs inside; `cache` is its compiled form. */
export const ownCode = (seen: Command['seen'], cacheIsWritable: boolean): string[] => [
  '--ro-bind',
  `${seen.code}/src`,
  '/opt/cob/src',
  '--ro-bind',
  `${seen.code}/node_modules`,
  '/opt/cob/node_modules',
  '--ro-bind',
  `${seen.code}/package.json`,
  '/opt/cob/package.json',
  '--ro-bind',
  seen.node!,
  '/opt/node',
  cacheIsWritable ? '--bind' : '--ro-bind',
  seen.cache!,
  CACHE_DIR,
]

/**
 * pasta makes a process namespace and leaves the host's /proc in place. bwrap looks for its child there by the number that the
 * child has in the new namespace, and fails when the host has no process of that number.
 */
const OWN_PROC = 'exec unshare --mount-proc -- "$@"'

/** Enters the network, closes what the instance's `etc` says, does `before` (a shell line), and then closes the sandbox. */
export function enclosed(network: NetworkPlan, etc: string, before: string, bwrap: string[]): string[] {
  const inside = ['ulimit -c 0', ...(network.pasta.length > 0 ? [network.setup(`${etc}/${NETWORK_BATCH}`), before, OWN_PROC] : [before, 'exec "$@"'])].join(
    '\n',
  )
  return [...network.pasta, '/bin/sh', '-c', inside, 'sh', ...bwrap]
}

export const setEnvironment = (variables: Record<string, string>): string[] => [
  '--clearenv',
  ...Object.entries(variables).flatMap(([name, value]) => ['--setenv', name, value]),
]

/**
 * The command that starts an instance. What it makes certain: system folders are read-only, /etc is the instance's own,
 * no capability, users and processes and network of its own, and all of it dies when any of pasta, bwrap or agent does.
 * User namespaces stay possible inside, because Chromium's own sandbox is made of them.
 */
export function sandboxCommand({ spec, dir, etcFiles, network, user, groups, cache, entry }: SandboxPlan): Command {
  const folders = { code: PACKAGE_DIR, node: dirname(process.execPath), home: join(dir, 'home'), etc: join(dir, 'etc'), cache: cache.dir }
  return asUser(
    user,
    folders,
    (seen) => {
      const bwrap = [
        ...closedRoot(seen.etc!, etcFiles, network),
        '--tmpfs',
        '/etc/chromium/policies',
        '--perms',
        '0700',
        '--dir',
        FRAMEBUFFER_DIR,
        '--perms',
        '1777',
        '--dir',
        dirname(DISPLAY_SOCKET),
        '--ro-bind-try',
        '/var/cache/fontconfig',
        '/var/cache/fontconfig',
        '--bind',
        seen.home!,
        '/home/kernel',
        ...ownCode(seen, cache.writable),
        '--remount-ro',
        '/',
        '--chdir',
        '/home/kernel',
        ...setEnvironment(environment(spec)),
        // The display starts beside the agent and becomes its child, for the shell becomes the agent.
        '--',
        '/bin/sh',
        '-c',
        `${entry === AGENT_ENTRY ? `${xvfbCommand(spec.maxScreen).join(' ')} </dev/null >>${DISPLAY_LOG} 2>&1 & ` : ''}exec "$@"`,
        'sh',
        '/opt/node/node',
        '--disable-warning=ExperimentalWarning',
        `--max-semi-space-size=${SEMI_SPACE_MB}`,
        `/opt/cob/src/${entry}`,
      ]
      return enclosed(network, seen.etc!, ':', bwrap)
    },
    groups,
  )
}

const environment = (spec: AgentSpec): Record<string, string> => ({
  HOME: '/home/kernel',
  USER: 'kernel',
  LANG: 'C.UTF-8',
  PATH: '/usr/local/bin:/usr/bin:/bin:/opt/node',
  TMPDIR: '/tmp',
  XDG_RUNTIME_DIR: '/run/cob',
  NODE_COMPILE_CACHE: CACHE_DIR,
  // There is no bus; looking for one would cost every start a few refused connections.
  DBUS_SESSION_BUS_ADDRESS: 'disabled:',
  COB_AGENT: JSON.stringify(spec),
})
