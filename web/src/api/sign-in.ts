// Signs in and out, and reads who is signed in.
import { useQuery, type UseQueryResult } from '@tanstack/react-query'
import { ROUTES } from 'virtual:routes'
import { signedIn, signedOut } from './account.ts'
import { call } from './client.ts'
import type { AnswerOf, CallId } from './contracts.ts'
import { project, useProject } from './project.ts'
import { queries } from './queries.ts'

export type Me = AnswerOf<'getMe'>

/** Exchanges a key for a session cookie. @throws ApiError */
export async function signInWithKey(key: string): Promise<void> {
  await call('signInWithKey', { body: { api_key: key } })
  queries.clear()
  signedIn()
}

export async function signOut(): Promise<void> {
  await call('signOut', {})
  project.choose(undefined)
  queries.clear()
  signedOut()
}

const ME_MS = 60_000

/** Reads who is signed in. This does not depend on the project, because it is read before one is chosen. */
export const useMe = (): UseQueryResult<Me> =>
  useQuery({ queryKey: ['getMe'], queryFn: ({ signal }) => call('getMe', {}, { signal, headers: { 'x-kernel-project-id': '' } }), staleTime: ME_MS })

const RIGHTS = { view: 0, use: 1, own: 2 }
const ROLES = { viewer: 0, member: 1, owner: 2 }

/**
 * Whether the person may make a call in a project. This only decides what the page offers, because the service checks every call. Until the answer is known,
 * everything is offered.
 */
export const mayOf =
  (me: Me | undefined, chosen: string | undefined) =>
  (id: CallId): boolean => {
    if (!me) return true
    // Without a choice the service uses the default project, which is the oldest, or the first project in which the person has a role.
    const inProject = (me.projects.find((each) => each.id === chosen) ?? me.projects[0])?.role
    const roles = [me.role, inProject].flatMap((role) => (role ? [ROLES[role]] : []))
    return Math.max(...roles, -1) >= RIGHTS[ROUTES[id]![2]]
  }

/** Whether the person may make this call in the present project. */
export const useMay = (id: CallId): boolean => mayOf(useMe().data, useProject())(id)
