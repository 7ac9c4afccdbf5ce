// The findings of `cob doctor` on this machine: what sessions as its processes need, and what is not enforced.
import { spawnSync } from 'node:child_process'
import { accessSync, constants, existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { release, tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { attempt, type Check } from '../../base/check.ts'
import type { Config } from '../../base/config.ts'
import { isRoot } from '../../base/user.ts'
import { ENDING_CHECK } from './direct-ways.ts'
import { findLimits } from './limits.ts'
import { interpreterOf } from './loader.ts'
import { NAMES_CHECK, planNetwork, REFUSAL_CHECK } from './network.ts'
import { hasSwap } from './standby.ts'
import { findStorage } from './storage.ts'
import { systemCallFilter } from './system-calls.ts'

/** Making a network and its rules takes some milliseconds. */
const KERNEL_MS = 10_000

/** What sessions as processes of this machine need. */
export async function localChecks(config: Config): Promise<Check[]> {
  return [
    program('pasta', 'passt'),
    program('bwrap', 'bubblewrap'),
    program('Xvfb', 'xvfb'),
    program('xkbcomp', 'x11-xkb-utils'),
    program('ip', 'iproute2'),
    program('setpriv', 'util-linux'),
    program('perl', 'perl-base'),
    program('nsenter', 'util-linux'),
    {
      name: 'Chromium',
      problem: existsSync(config.chromium) ? undefined : `${config.chromium} is not there (apt-get install chromium, or set COB_CHROMIUM)`,
      fatal: true,
    },
    {
      name: 'headless shell',
      problem:
        config.headless === 'full' || existsSync(config.headlessShell)
          ? undefined
          : `${config.headlessShell} is not there, so ${config.headless === 'lean' ? 'COB_HEADLESS=lean cannot be had' : 'headless sessions get the full browser'} (apt-get install chromium-headless-shell)`,
      fatal: config.headless === 'lean',
    },
    program('ffmpeg', 'ffmpeg', 'replays'),
    program('pulseaudio', 'pulseaudio', 'sound in replays'),
    program('X0tigervnc', 'tigervnc-scraping-server', 'the live view'),
    program('tar', 'tar', 'apps'),
    program('git', 'git', 'apps from git'),
    program('python3', 'python3 python3-venv', 'apps in Python'),
    { name: '/dev/net/tun', problem: tun(), fatal: true },
    { name: 'user namespaces', problem: userNamespaces(), fatal: true },
    { name: 'system call filter', problem: filter(), fatal: false },
    { name: 'closed agents', problem: closedAgents(), fatal: false },
    { name: 'network', problem: planNetwork(false).pasta.length > 0 ? undefined : 'this machine has no default route; browsers get no network', fatal: false },
    {
      name: 'multicast',
      problem: kernelLacks(
        REFUSAL_CHECK,
        'the kernel cannot refuse 224.0.0.0/24 (it needs CONFIG_XFRM_USER), so a program in a session can send to services on this machine that listen there',
      ),
      fatal: false,
    },
    {
      name: 'names of pages',
      problem: kernelLacks(
        NAMES_CHECK,
        'the kernel makes no bridge in a network of its own (it needs CONFIG_BRIDGE and CONFIG_XFRM_USER), so pages of a session do not find each other by WebRTC',
      ),
      fatal: false,
    },
    {
      name: 'direct connections',
      problem: kernelLacks(
        ENDING_CHECK,
        'the kernel cannot close what leads around a proxy (it needs CONFIG_INET_DIAG_DESTROY and CONFIG_IP_MULTIPLE_TABLES), so a browser that gets a proxy while it runs cannot be closed off',
      ),
      fatal: false,
    },
    { name: 'limits', problem: limits(config), fatal: false },
    { name: 'standby', problem: standby(config), fatal: false },
    { name: 'disk quotas', problem: await diskQuotas(), fatal: false },
  ]
}

/** A program that is always required, or only for the purpose that `without` names. */
function program(name: string, pkg: string, without?: string): Check {
  const found = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/sbin'].some((dir) => existsSync(join(dir, name)))
  const problem = `not found${without ? `, so ${without} will not work` : ''} (apt-get install ${pkg})`
  return { name, problem: found ? undefined : problem, fatal: without === undefined }
}

// Instances are unprivileged even when root starts the service, so every user must be able to open it. Debian's udev makes it 0666.
function tun(): string | undefined {
  if (isRoot())
    return (
      attempt(() => accessSync('/dev/net/tun')) ??
      (statSync('/dev/net/tun').mode & 0o006 ? undefined : 'only root may open it (chmod 666 /dev/net/tun, as Debian has it)')
    )
  return attempt(() => accessSync('/dev/net/tun', constants.R_OK | constants.W_OK))
}

function kernelLacks([file, ...args]: readonly [string, ...string[]], problem: string): string | undefined {
  const { status, stderr, error } = spawnSync(file, args, { encoding: 'utf8', timeout: KERNEL_MS })
  return status === 0 ? undefined : `${problem}: ${error?.message ?? stderr.trim()}`
}

function userNamespaces(): string | undefined {
  const read = (file: string) => (existsSync(file) ? readFileSync(file, 'utf8').trim() : undefined)
  if (read('/proc/sys/kernel/unprivileged_userns_clone') === '0') return 'switched off (sysctl kernel.unprivileged_userns_clone=1)'
  if (read('/proc/sys/user/max_user_namespaces') === '0') return 'none allowed (sysctl user.max_user_namespaces=10000)'
  if (read('/proc/sys/kernel/apparmor_restrict_unprivileged_userns') === '1')
    return 'AppArmor restricts them (sysctl kernel.apparmor_restrict_unprivileged_userns=0)'
  return undefined
}

const filter = (): string | undefined =>
  systemCallFilter() ? undefined : `there is none for this processor (${process.arch}); sessions may make every system call that an ordinary user may`

// With 1, the owner of a process can inspect it (and read its memory) whatever its program (proc_sys_fs(5)).
function closedAgents(): string | undefined {
  if (interpreterOf(process.execPath) === undefined) return 'this Node is linked statically, so programs of a session can take over its agent'
  return attempt(() => {
    if (readFileSync('/proc/sys/fs/suid_dumpable', 'utf8').trim() === '1')
      throw new Error('programs of a session can take over its agent (sysctl fs.suid_dumpable=0)')
  })
}

/** The first kernel that counts processes by user namespace. */
const NPROC_KERNEL = [5, 14]

/** The missing requirements for sleeping sessions to cost nothing. */
function standby({ standbyAfterSeconds }: Config): string | undefined {
  if (standbyAfterSeconds === 0) return 'switched off (COB_STANDBY_AFTER_SECONDS)'
  const { freezer, canReclaim } = findLimits('doctor')
  if (!freezer) return 'sessions that nothing uses stay awake: their processes can only be stopped by cgroups (docs/standby.md)'
  if (!canReclaim) return 'sessions that sleep keep their memory: the kernel gives none back on request (it needs Linux 5.19)'
  return hasSwap() ? undefined : 'sessions that sleep use no CPU but keep their memory: this machine has no swap to put it into (docs/standby.md)'
}

function limits(config: Config): string | undefined {
  const { findings, sharesCpu } = findLimits('doctor')
  const [major = 0, minor = 0] = release().split('.').map(Number)
  const isOld = major < NPROC_KERNEL[0]! || (major === NPROC_KERNEL[0] && minor < NPROC_KERNEL[1]!)
  const problems = [
    ...findings,
    ...(isOld && findings.length > 0 ? ['before Linux 5.14 the processes of all instances count together against COB_INSTANCE_PIDS'] : []),
    ...(!sharesCpu && config.instanceCpuPercent + config.appCpuPercent > 0 ? ['COB_INSTANCE_CPU_PERCENT and COB_APP_CPU_PERCENT are not enforced'] : []),
  ]
  return problems.length > 0 ? problems.join('; ') : undefined
}

async function diskQuotas(): Promise<string | undefined> {
  const dir = mkdtempSync(join(tmpdir(), 'cob-doctor-'))
  try {
    return (await findStorage(dir)).finding
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}
