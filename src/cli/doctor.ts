// `cob doctor`: what is missing on this machine, each with what to do about it.
import { accessSync, constants, existsSync, readFileSync, statSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { Config } from '../base/config.ts'
import { isRoot, serviceUser } from '../base/user.ts'
import { descriptorLimit, descriptorProblem } from '../http/connections.ts'
import { findLimits } from '../instances/local/limits.ts'
import { findOrphans, type Orphan } from '../instances/local/orphans.ts'
import { planNetwork } from '../instances/local/network.ts'

interface Check {
  name: string
  /** What is wrong; undefined when all is well. */
  problem: string | undefined
  /** A problem that keeps browsers from starting, or only a limit that is not enforced. */
  fatal: boolean
}

/** Prints every check, and ends what belongs to no service if asked to; returns the exit code: 1 when browsers cannot start. */
export async function doctor(config: Config, { endOrphans }: { endOrphans: boolean }): Promise<number> {
  const checks: Check[] = [
    program('pasta', 'passt'),
    program('bwrap', 'bubblewrap'),
    program('Xvfb', 'xvfb'),
    program('xkbcomp', 'x11-xkb-utils'),
    program('ip', 'iproute2'),
    program('setpriv', 'util-linux'),
    {
      name: 'Chromium',
      problem: existsSync(config.chromium) ? undefined : `${config.chromium} is not there (apt-get install chromium, or set COB_CHROMIUM)`,
      fatal: true,
    },
    program('ffmpeg', 'ffmpeg', 'replays'),
    program('pulseaudio', 'pulseaudio', 'sound in replays'),
    program('X0tigervnc', 'tigervnc-scraping-server', 'the live view'),
    program('git', 'git', 'apps from git'),
    program('python3', 'python3 python3-venv', 'apps in Python'),
    { name: '/dev/net/tun', problem: tun(), fatal: true },
    { name: 'user namespaces', problem: userNamespaces(), fatal: true },
    { name: 'service user', problem: attempt(() => void serviceUser()), fatal: true },
    { name: 'network', problem: planNetwork(false).pasta.length > 0 ? undefined : 'this machine has no default route; browsers get no network', fatal: false },
    { name: 'open files', problem: descriptorProblem(descriptorLimit(), config.maxBrowsers + config.maxInvocations), fatal: false },
    { name: 'limits', problem: findLimits('doctor').finding, fatal: false },
  ]
  for (const { name, problem, fatal } of checks)
    process.stdout.write(`${problem === undefined ? 'ok     ' : fatal ? 'MISSING' : 'note   '} ${name}${problem === undefined ? '' : `: ${problem}`}\n`)
  for (const orphan of findOrphans(config.abandonedGraceSeconds)) process.stdout.write(`note    ${await told(orphan, endOrphans)}\n`)
  return checks.some(({ problem, fatal }) => fatal && problem !== undefined) ? 1 : 0
}

/** What there is to say of a sandbox that belongs to no service, after it has been ended if that was wanted. */
async function told({ id, dataDir, why, users, end }: Orphan, isToEnd: boolean): Promise<string> {
  const what = `sandbox ${id} of ${dataDir}${users.length > 0 ? `, processes of user id ${users.join(', ')}` : ', processes of another user'}: ${why}`
  if (!isToEnd) return `${what} (cob doctor --end-orphans ends it)`
  return end().then(
    () => `${what}; ended`,
    (error: unknown) => `${what}; could not be ended: ${(error as Error).message}`,
  )
}

/** A program that nothing works without, or only what `without` names. */
function program(name: string, pkg: string, without?: string): Check {
  const found = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/sbin'].some((dir) => existsSync(join(dir, name)))
  const problem = `not found${without ? `, so ${without} will not work` : ''} (apt-get install ${pkg})`
  return { name, problem: found ? undefined : problem, fatal: without === undefined }
}

// Instances are unprivileged whoever starts the service, so it is everybody who must be able to open it: Debian's udev makes it 0666.
function tun(): string | undefined {
  if (isRoot())
    return (
      attempt(() => accessSync('/dev/net/tun')) ??
      (statSync('/dev/net/tun').mode & 0o006 ? undefined : 'only root may open it (chmod 666 /dev/net/tun, as Debian has it)')
    )
  return attempt(() => accessSync('/dev/net/tun', constants.R_OK | constants.W_OK))
}

function userNamespaces(): string | undefined {
  const read = (file: string) => (existsSync(file) ? readFileSync(file, 'utf8').trim() : undefined)
  if (read('/proc/sys/kernel/unprivileged_userns_clone') === '0') return 'switched off (sysctl kernel.unprivileged_userns_clone=1)'
  if (read('/proc/sys/user/max_user_namespaces') === '0') return 'none allowed (sysctl user.max_user_namespaces=10000)'
  if (read('/proc/sys/kernel/apparmor_restrict_unprivileged_userns') === '1')
    return 'AppArmor restricts them (sysctl kernel.apparmor_restrict_unprivileged_userns=0)'
  return undefined
}

const attempt = (work: () => void): string | undefined => {
  try {
    work()
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}
