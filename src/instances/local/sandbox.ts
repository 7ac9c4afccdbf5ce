// The command line of an instance: pasta (network) -> bwrap (users, processes, mounts) -> agent.
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DISPLAY_LOG, DISPLAY_SOCKET, FRAMEBUFFER_DIR, LOCAL_TIME, xvfbCommand, ZONES_DIR, type AgentSpec } from '../../agent/spec.ts'
import { READ_KEYS } from '../../base/access.ts'
import { PACKAGE_DIR } from '../../base/paths.ts'
import { asUser, type Command } from '../../base/unprivileged.ts'
import type { User } from '../../base/user.ts'
import { descriptorLimit } from '../../http/connections.ts'
import { FILTER, NETWORK_BATCH, SHARED_ETC } from './guest-etc.ts'
import { unreadableLoader } from './loader.ts'
import type { NetworkPlan } from './network.ts'
import { HOST_LOCAL, placesInside } from './places.ts'
import { AGENT_FILE } from './program.ts'
import { diskOf, memoryLines, memoryOf } from './storage.ts'

/** Limits that the sandbox sets by itself, with or without cgroups. */
export interface Bounds {
  memoryBytes: number
  /** Processes and threads. */
  pids: number
  /** The size of the largest file, where the disk is not an image of that size. */
  fileBytes: number | undefined
  /** The nice value where it has no CPU group: 0 to 19. */
  nice: number
}

export interface SandboxPlan {
  spec: AgentSpec
  /** The instance's folder on the host. It holds its disk (`home`, and `places` of places.ts), its folders in memory, and `etc` (storage.ts). */
  dir: string
  bounds: Bounds
  /** Shell lines that run at the beginning of the start (storage.ts). */
  before: string
  etcFiles: string[]
  network: NetworkPlan
  user: User | undefined
  /** cgroup.procs files to enter. */
  groups: string[]
  /** Compiled code of the agent (agent-cache.ts). Only the run that makes it may write there. */
  cache: { dir: string; writable: boolean }
  /** The program below src/ that is run. */
  entry: string
}

/** The agent itself. Another entry only loads its code. */
export const AGENT_ENTRY = 'agent/main.ts'

/** The path of the compiled code inside, and in it the folder of the agent's own files (program.ts). */
export const CACHE_DIR = '/opt/cob-cache'
export const PROGRAM = 'program'

/** Node inside. */
export const NODE_PATH = '/opt/node/node'

/** The size of V8's young generation. Agents and runners make little garbage, and the default of 16 MB would add up over sessions. */
const SEMI_SPACE_MB = 1

/** The uid and gid of user `kernel` inside; programs written for the original service rely on the name and on /home/kernel. */
const GUEST_ID = '1000'

/** Files of /proc that describe the machine and its keys, and that no program inside needs. */
const CLOSED_PROC = ['keys', 'key-users', 'cmdline', 'timer_list', 'sched_debug'].filter((name) => existsSync(`/proc/${name}`))

/** The number of keyctl(2), per processor. */
export const KEYCTL: Record<string, number> = { x64: 250, arm64: 219 }

/** The first options of every sandbox: namespaces for users, processes, IPC and host name, no capability, a read-only system, an /etc of its own. */
export function closedRoot(etc: string, memory: string, etcFiles: readonly string[], network: NetworkPlan): string[] {
  return [
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
    ...CLOSED_PROC.flatMap((name) => ['--ro-bind', '/dev/null', `/proc/${name}`]),
    '--dev',
    '/dev',
    '--bind',
    `${memory}/shm`,
    '/dev/shm',
    // The user inside owns it and could otherwise write there without a quota.
    '--remount-ro',
    '/dev',
    '--bind',
    `${memory}/tmp`,
    '/tmp',
    '--bind',
    `${memory}/run`,
    '/run',
    '--perms',
    '0700',
    '--dir',
    '/run/cob',
    // A link, so that programs see the zone's name: several zones share the same file.
    '--symlink',
    LOCAL_TIME,
    '/etc/localtime',
    '--symlink',
    `${ZONES_DIR}/${Intl.DateTimeFormat().resolvedOptions().timeZone}`,
    LOCAL_TIME,
    '--dir',
    '/var/tmp',
    '--dir',
    '/var/lib',
    '--symlink',
    '/run',
    '/var/run',
  ]
}

/** Our own code and its Node, for programs of ours inside. `cache` is the compiled code. */
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
 * Chromium and usual tools need some thousands. The open descriptors of a process are read from outside (usage.ts, direct-ways.ts), and take memory of the
 * kernel.
 */
const MAX_DESCRIPTORS = 65_536

/** When the machine runs out of memory, the kernel ends a process of a sandbox before it ends the service or its database. */
const OOM_SCORE = 100

/**
 * A mount namespace with a /proc for pasta's process namespace. pasta makes the namespace and leaves the host's /proc in place. bwrap looks for
 * its child there by the child's pid in the new namespace, and fails when the host has no such process.
 */
const WITH_PASTA = ['unshare', '--mount-proc', '--']
const WITHOUT_PASTA = ['unshare', '--user', '--map-root-user', '--mount', '--propagation', 'private', '--']

/** Enters the network in namespaces of its own, blocks the ranges listed in `etc` (writeGuestEtc), runs `before` (shell lines), and then executes `command`. */
export function networked(network: NetworkPlan, etc: string, before: readonly string[], command: readonly string[]): string[] {
  const hasNetwork = network.pasta.length > 0
  const inside = ['set -e', ...(hasNetwork ? [network.setup(`${etc}/${NETWORK_BATCH}`)] : []), ...before, 'exec "$@"'].join('\n')
  return [...network.pasta, ...(hasNetwork ? WITH_PASTA : WITHOUT_PASTA), '/bin/sh', '-c', inside, 'sh', ...command]
}

/**
 * Enters the network ({@link networked}), makes the folders in memory, runs `before` (a shell line), drops what must not be inherited
 * (enclose.pl), and then starts `program` in the sandbox: a line for a shell and its arguments, with the listening socket as standard input.
 * `seen` has the folders `etc` (of writeGuestEtc) and `memory`.
 *
 * The process limit is set in a user namespace of the sandbox's own (pasta's, or one made for it). There the kernel (5.14 or newer) counts the
 * processes of that namespace and not all of the user's, so that one sandbox cannot use up another's share.
 */
export function enclosed(
  { code, etc, memory }: Command['seen'],
  network: NetworkPlan,
  { pids, fileBytes, nice, memoryBytes }: Bounds,
  before: string,
  options: string[],
  program: string[],
): string[] {
  const lines = [`echo ${OOM_SCORE} >/proc/self/oom_score_adj`, memoryLines(memory!, memoryBytes), before]
  const files = Math.min(descriptorLimit(), MAX_DESCRIPTORS)
  const limits = [
    '--core=0',
    `--nproc=${pids}:${pids}`,
    `--nofile=${files}:${files}`,
    ...(fileBytes === undefined ? [] : [`--fsize=${fileBytes}:${fileBytes}`]),
  ]
  // The name is on the command line so that processesUsing finds the processes that a killed service has started.
  const enclose = ['perl', `${code}/src/instances/local/enclose.pl`, 'bwrap', String(KEYCTL[process.arch] ?? -1), `${etc}/${FILTER}`, String(options.length)]
  return networked(network, etc!, lines, ['nice', '-n', String(nice), 'prlimit', ...limits, ...enclose, ...options, ...program])
}

/** Node inside, for a program of ours. It ignores SIGUSR1, because any process of the same user could open its debugger by that signal. */
const NODE = [NODE_PATH, '--disable-sigusr1', '--disable-warning=ExperimentalWarning', `--max-semi-space-size=${SEMI_SPACE_MB}`]

/** Node inside, protected from other processes of its user (loader.ts). `cache` is the folder of the compiled code on the host. */
export function closedNode(cache: string): string[] {
  const loader = unreadableLoader(cache)
  return loader === undefined ? NODE : [`${CACHE_DIR}/${loader}`, '--argv0', NODE_PATH, ...NODE]
}

export const setEnvironment = (variables: Record<string, string>): string[] => [
  '--clearenv',
  ...Object.entries(variables).flatMap(([name, value]) => ['--setenv', name, value]),
]

/**
 * The command that starts an instance. Its guarantees: system folders are read-only, /etc is the instance's own, there are no capabilities, it
 * has its own users, processes and network, and everything ends when any of pasta, bwrap or agent ends. User namespaces stay possible inside,
 * because Chromium's own sandbox needs them.
 */
export function sandboxCommand({ spec, dir, bounds, before, etcFiles, network, user, groups, cache, entry }: SandboxPlan): Command {
  // A run that only compiles the agent's code does not have a session's places.
  const places: Record<string, string> = entry === AGENT_ENTRY ? { places: join(diskOf(dir), 'places') } : {}
  const folders = {
    code: PACKAGE_DIR,
    node: dirname(process.execPath),
    home: join(diskOf(dir), 'home'),
    memory: memoryOf(dir),
    etc: join(dir, 'etc'),
    cache: cache.dir,
    ...places,
  }
  return asUser(
    user,
    folders,
    (seen) => {
      const options = [
        ...closedRoot(seen.etc!, seen.memory!, etcFiles, network),
        '--bind',
        `${seen.memory}/policies`,
        '/etc/chromium/policies',
        '--perms',
        '0700',
        '--dir',
        FRAMEBUFFER_DIR,
        '--perms',
        '1777',
        '--dir',
        dirname(DISPLAY_SOCKET),
        ...(seen.places === undefined ? [] : placesInside(seen.places)),
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
      ]
      // The display starts in parallel with the agent and becomes its child, because the shell executes the agent in its own process.
      const program = [
        `${entry === AGENT_ENTRY && !spec.lean ? `(unset COB_AGENT; exec ${xvfbCommand(spec.maxScreen).join(' ')} </dev/null >>${DISPLAY_LOG} 2>&1) 3<&- & ` : ''}${READ_KEYS}; exec "$@"`,
        ...(cache.writable ? NODE : closedNode(cache.dir)),
        entry === AGENT_ENTRY ? `${CACHE_DIR}/${PROGRAM}/${AGENT_FILE}` : `/opt/cob/src/${entry}`,
      ]
      return enclosed(seen, network, bounds, lowPorts(spec.apiPorts), options, program)
    },
    groups,
    before,
  )
}

/** A shell line that lets the agent listen on the API's port when that is below 1024. It changes the sandbox's own network namespace only. */
const lowPorts = (ports: readonly number[]): string => {
  const lowest = Math.min(1024, ...ports)
  return lowest < 1024 ? `echo ${lowest} >/proc/sys/net/ipv4/ip_unprivileged_port_start` : ':'
}

const environment = (spec: AgentSpec): Record<string, string> => ({
  HOME: '/home/kernel',
  USER: 'kernel',
  LANG: 'C.UTF-8',
  // The agent uses the machine's own programs. Programs that a session installs in its /usr/local are for its own processes (spec.ts).
  PATH: `${HOST_LOCAL}/bin:/usr/bin:/bin:/opt/node`,
  TMPDIR: '/tmp',
  XDG_RUNTIME_DIR: '/run/cob',
  NODE_COMPILE_CACHE: CACHE_DIR,
  // There is no D-Bus. Looking for it would cost every start a few refused connections.
  DBUS_SESSION_BUS_ADDRESS: 'disabled:',
  COB_AGENT: JSON.stringify(spec),
})
