// Signing in and out, and who is signed in.
import { useQuery, type UseQueryResult } from '@tanstack/react-query'
import { signedIn, signedOut } from './account.ts'
import { call } from './client.ts'
import type { AnswerOf } from './contracts.ts'
import { project } from './project.ts'
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

/** Who is signed in. Its key has no project: it is asked before one is chosen. */
export const useMe = (): UseQueryResult<Me> =>
  useQuery({ queryKey: ['getMe'], queryFn: ({ signal }) => call('getMe', {}, { signal, headers: { 'x-kernel-project-id': '' } }), staleTime: ME_MS })
