// Signing in and out. These routes are not part of the public API's contracts.
import { signedIn, signedOut } from './account.ts'
import { request } from './client.ts'
import { project } from './project.ts'
import { queries } from './queries.ts'

export interface SignInOptions {
  key: boolean
  providers: { id: string; name: string }[]
}

export type Role = 'owner' | 'member' | 'viewer'

/** Who is signed in, and what for. */
export interface Me {
  principal: { type: 'api_key' | 'user'; id: string; name: string | null; email: string | null }
  organization: { id: string }
  role: Role | null
  projects: { id: string; name: string; role: Role }[]
}

export const signInOptions = async (signal: AbortSignal): Promise<SignInOptions> =>
  (await (await request('GET', '/sign-in/options', { signal })).json()) as SignInOptions

/** Exchanges a key for a session cookie. @throws ApiError */
export async function signInWithKey(key: string): Promise<void> {
  await request('POST', '/sign-in/key', { body: { api_key: key } })
  queries.clear()
  signedIn()
}

export async function signOut(): Promise<void> {
  await request('POST', '/sign-out')
  project.choose(undefined)
  queries.clear()
  signedOut()
}

export const me = async (signal: AbortSignal): Promise<Me> => (await (await request('GET', '/me', { signal })).json()) as Me
