// `cob doctor`: reports what is missing on this machine, and how to fix it.
import { existsSync } from 'node:fs'
import { attempt, type Check } from '../base/check.ts'
import type { Config } from '../base/config.ts'
import { roomOn } from '../base/disk.ts'
import { serviceUser } from '../base/user.ts'
import { objectsProblem } from '../control/service/doctor.ts'
import { descriptorLimit, descriptorProblem } from '../http/connections.ts'
import { findOrphans, type Orphan } from '../instances/local/orphans.ts'

/** Prints every check, and ends sandboxes of no service on request. Returns the exit code: 1 when browsers cannot start. */
export async function doctor(config: Config, { endOrphans }: { endOrphans: boolean }): Promise<number> {
  const checks: Check[] = [
    ...(await engineChecks(config)),
    { name: 'service user', problem: attempt(() => void serviceUser()), fatal: true },
    { name: 'open files', problem: descriptorProblem(descriptorLimit(), config.maxBrowsers + config.maxInvocations), fatal: false },
    { name: 'disk', problem: disk(config), fatal: false },
    { name: 'objects', problem: await objectsProblem(config), fatal: false },
  ]
  for (const { name, problem, fatal } of checks)
    process.stdout.write(`${problem === undefined ? 'ok     ' : fatal ? 'MISSING' : 'note   '} ${name}${problem === undefined ? '' : `: ${problem}`}\n`)
  for (const orphan of findOrphans(config.abandonedGraceSeconds)) process.stdout.write(`note    ${await reportOn(orphan, endOrphans)}\n`)
  return checks.some(({ problem, fatal }) => fatal && problem !== undefined) ? 1 : 0
}

async function engineChecks(config: Config): Promise<Check[]> {
  if (config.driver === 'docker') return (await import('../instances/docker/doctor.ts')).dockerChecks(config)
  if (config.driver === 'kubernetes') return (await import('../instances/kubernetes/doctor.ts')).kubernetesChecks(config)
  return (await import('../instances/local/doctor.ts')).localChecks(config)
}

/** The report on a sandbox that belongs to no service, after it was ended on request. */
async function reportOn({ id, dataDir, why, users, end }: Orphan, isToEnd: boolean): Promise<string> {
  const what = `sandbox ${id} of ${dataDir}${users.length > 0 ? `, processes of user id ${users.join(', ')}` : ', processes of another user'}: ${why}`
  if (!isToEnd) return `${what} (cob doctor --end-orphans ends it)`
  return end().then(
    () => `${what}; ended`,
    (error: unknown) => `${what}; could not be ended: ${(error as Error).message}`,
  )
}

function disk(config: Config): string | undefined {
  if (!existsSync(config.dataDir)) return undefined
  const { problem } = roomOn(config.dataDir, config.diskReserveMb)
  return problem
}
