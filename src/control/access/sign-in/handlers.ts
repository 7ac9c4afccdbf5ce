// Handlers of the Sign-in contract.
import { known, type Handlers, type Principal } from '../../../http/route.ts'
import { ORGANIZATION } from '../account/contract.ts'
import type { Me, signIn as contract } from './contract.ts'
import type { SignIn } from './sign-in.ts'

/** Describes a caller and what it may use. */
type Describe = (by: Principal['by']) => Promise<Omit<Me, 'organization'>>

export const signInHandlers = (signIn: SignIn, describe: Describe): Handlers<typeof contract> => ({
  getSignInOptions: () => signIn.options,
  signInWithKey: ({ body, ...call }) => signIn.withKey(body.api_key, call),
  beginOidcSignIn: ({ params, query, ...call }) => signIn.with(params.provider).begin(query.return_to, call),
  finishOidcSignIn: ({ params, query, ...call }) => signIn.with(params.provider).finish(query, call),
  signOut: (call) => signIn.end(call),
  getMe: async ({ principal }) => ({ ...(await describe(known(principal).by)), organization: { id: ORGANIZATION } }),
})
