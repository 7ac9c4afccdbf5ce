// What the person may do in the project that the pages are about. The service decides; pages only leave out what it would refuse.
import type { Right, Role } from '../../../src/http/route.ts'
import { useProject } from './project.ts'
import { useMe } from './sign-in.ts'

/** The project of requests that name none; it has this id in every service. */
const DEFAULT_PROJECT = 'defaultproject0000000000'

const RANK: Record<Right, number> = { view: 0, use: 1, own: 2 }
const MAY: Record<Role, number> = { viewer: 0, member: 1, owner: 2 }

export interface Rights {
  /** Change what is in the project. */
  use: boolean
  /** Decide who may, in the project. */
  own: boolean
  /** Decide for the whole service. */
  ownAll: boolean
}

/** Until the service has said who is signed in: nothing. */
export function useRights(): Rights {
  const me = useMe().data
  const chosen = useProject()
  if (!me) return { use: false, own: false, ownAll: false }
  const here = chosen === undefined ? (me.projects.find(({ id }) => id === DEFAULT_PROJECT) ?? me.projects[0]) : me.projects.find(({ id }) => id === chosen)
  const role = here?.role ?? me.role
  const includes = (given: Role | null, right: Right): boolean => given !== null && MAY[given] >= RANK[right]
  return { use: includes(role ?? null, 'use'), own: includes(role ?? null, 'own'), ownAll: includes(me.role, 'own') }
}
