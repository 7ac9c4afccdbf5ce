// Handlers of the Credentials contract.
import { known, type Handlers } from '../../../http/route.ts'
import type { credentials as contract } from './contract.ts'
import type { Credentials } from './credentials.ts'

export const credentialHandlers = (credentials: Credentials): Handlers<typeof contract> => ({
  createCredential: ({ principal, body }) => credentials.create(known(principal).project, body),
  listCredentials: ({ principal, query }) => credentials.list(known(principal).project, query),
  getCredential: ({ principal, params }) => credentials.get(known(principal).project, params.id_or_name),
  updateCredential: ({ principal, params, body }) => credentials.update(known(principal).project, params.id_or_name, body),
  deleteCredential: ({ principal, params }) => credentials.delete(known(principal).project, params.id_or_name),
  getCredentialTotpCode: ({ principal, params }) => credentials.totpCode(known(principal).project, params.id_or_name),
})
