// The rules of limits: what callers set, and which limit applies to a project.
import { fault } from '../../../http/fault.ts'
import type { Principal } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import type { ProjectSeats } from '../../../store/seats.ts'
import { CHECK_SECONDS } from '../../logins/auth-connections/contract.ts'
import type { OrgLimits, ProjectLimits, UpdateOrgLimits, UpdateProjectLimits } from './contract.ts'
import { assertOrganization, visible } from './projects.ts'
import { effectiveLimits, orgLimits, updateLimits, updateOrgLimits, type ProjectRow } from './rows.ts'

/** How long "no limit" of a project is cached. A first limit set by another replica applies after this time, a changed limit at once. */
const REMEMBER_MS = 2_000
const REMEMBER_PROJECTS = 1_000

const KINDS = ['sessions', 'invocations'] as const
type Kind = (typeof KINDS)[number]

/** Number of present objects of a kind in a project. */
export type CountIn = (db: Db, project: string) => Promise<number>

/** The seats of projects that have a limit. */
export interface Caps extends Record<Kind, ProjectSeats> {
  /** Clears the cache, because this replica has changed a limit. */
  forget(): void
}

export function makeCaps(db: Db, count: Record<Kind, CountIn>): Caps {
  /** The cache has promises, so that concurrent callers share one query. */
  const known = new Map<string, { limits: ReturnType<typeof effectiveLimits>; until: number }>()

  const limitsOf = (project: string): ReturnType<typeof effectiveLimits> => {
    const found = known.get(project)
    if (found && found.until > performance.now()) return found.limits
    if (known.size >= REMEMBER_PROJECTS) known.clear()
    const limits = effectiveLimits(db, project)
    const entry = { limits, until: performance.now() + REMEMBER_MS }
    known.set(project, entry)
    limits.catch(() => known.get(project) === entry && known.delete(project))
    return limits
  }

  const seatsOf =
    (kind: Kind): ProjectSeats =>
    async (project) => {
      if (((await limitsOf(project))?.[kind] ?? null) === null) return undefined
      return {
        name: `${kind} of project ${project}`,
        // Read the limit again without the cache: a limit that was just raised or removed must not refuse anybody.
        async count(tx) {
          const of = (await effectiveLimits(tx, project))?.[kind] ?? Infinity
          return { of, free: of === Infinity ? of : of - (await count[kind](tx, project)) }
        },
      }
    }

  return { sessions: seatsOf('sessions'), invocations: seatsOf('invocations'), forget: () => known.clear() }
}

interface LimitsSettings {
  db: Db
  /** Most sessions of this service, and their present number. */
  maxSessions: number
  sessions: () => Promise<number>
  authConnections: () => Promise<number>
  /** Called after every change. */
  onChange: () => void
}

export interface Limits {
  /** @throws 404 */
  ofProject(by: Principal, idOrName: string): Promise<ProjectLimits>
  /** @throws 404, 403 */
  updateProject(by: Principal, idOrName: string, changes: UpdateProjectLimits): Promise<ProjectLimits>
  /** @throws 403 unless the caller may see what other projects use */
  ofAll(by: Principal): Promise<OrgLimits>
  /** @throws 400 for a default above the limit of the service; 403 */
  updateAll(by: Principal, changes: UpdateOrgLimits): Promise<OrgLimits>
}

export function makeLimits({ db, maxSessions, sessions, authConnections, onChange }: LimitsSettings): Limits {
  const present = async (limits: Awaited<ReturnType<typeof orgLimits>>): Promise<OrgLimits> => {
    const used = await sessions()
    return {
      max_concurrent_sessions: maxSessions,
      default_project_max_concurrent_sessions: limits.default_project_max_concurrent_sessions,
      concurrent_sessions_used: used,
      concurrent_sessions_available: Math.max(0, maxSessions - used),
      auth_connections_used: await authConnections(),
      max_auth_connections: null,
      min_health_check_interval_seconds: CHECK_SECONDS.least,
      vaults_used: 0,
      max_vaults: null,
    }
  }
  return {
    ofProject: async (by, idOrName) => ofRow(await visible(db, by, idOrName)),
    async updateProject(by, idOrName, changes) {
      const { id } = await visible(db, by, idOrName)
      assertOrganization(by)
      const row = await updateLimits(db, id, changes)
      onChange()
      if (!row) throw fault.notFound('project', idOrName)
      return ofRow(row)
    },
    async ofAll(by) {
      assertOrganization(by)
      return present(await orgLimits(db))
    },
    async updateAll(by, changes) {
      assertOrganization(by)
      if ((changes.default_project_max_concurrent_sessions ?? 0) > maxSessions)
        throw fault.field('default_project_max_concurrent_sessions', `must be at most ${maxSessions}, the limit of all projects together (COB_MAX_BROWSERS)`)
      const limits = await updateOrgLimits(db, changes)
      onChange()
      return present(limits)
    },
  }
}

const ofRow = ({ max_concurrent_sessions, max_concurrent_invocations }: ProjectRow): ProjectLimits => ({
  max_concurrent_sessions,
  max_concurrent_invocations,
  max_pooled_sessions: null,
})
