// Handlers of the account contract.
import { known, type Handlers } from '../../../http/route.ts'
import { contextOf, entitlements, type Limits } from './account.ts'
import type { account as contract } from './contract.ts'

export const accountHandlers = (limits: Limits): Handlers<typeof contract> => ({
  getAuthContext: ({ principal, headers }) => contextOf(known(principal), headers),
  getEntitlements: () => entitlements(limits),
})
