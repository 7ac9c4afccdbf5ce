// Handlers of the API keys contract.
import { known, type Handlers } from '../../../http/route.ts'
import type { ApiKeys } from './api-keys.ts'
import type { apiKeys as contract } from './contract.ts'

export const apiKeyHandlers = (keys: ApiKeys): Handlers<typeof contract> => ({
  createApiKey: ({ principal, body }) => keys.create(known(principal), body),
  listApiKeys: ({ principal, query }) => keys.list(known(principal), query),
  getApiKey: ({ principal, params, query }) => keys.get(known(principal), params.id, query.include_deleted),
  updateApiKey: ({ principal, params, body }) => keys.rename(known(principal), params.id, body.name),
  deleteApiKey: ({ principal, params }) => keys.delete(known(principal), params.id),
  rotateApiKey: ({ principal, params, body }) => keys.rotate(known(principal), params.id, body),
})
