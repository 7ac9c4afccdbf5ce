// Handlers of the Extensions contract.
import { known, type Handlers } from '../../../http/route.ts'
import type { extensions as contract } from './contract.ts'
import type { FetchFromStore } from './chrome-store.ts'
import type { Extensions } from './extensions.ts'

export const extensionHandlers = (extensions: Extensions, fetchFromStore: FetchFromStore): Handlers<typeof contract> => ({
  uploadExtension: ({ principal, body, signal }) => extensions.upload(known(principal).project, body, signal),
  listExtensions: ({ principal, query }) => extensions.list(known(principal).project, query),
  downloadFromChromeStore: ({ query, signal }) => fetchFromStore(query.url, query.os, signal),
  downloadExtension: ({ principal, params, signal }) => extensions.download(known(principal).project, params.id_or_name, signal),
  getExtension: ({ principal, params }) => extensions.get(known(principal).project, params.id_or_name),
  deleteExtension: ({ principal, params }) => extensions.delete(known(principal).project, params.id_or_name),
})
