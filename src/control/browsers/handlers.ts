// Handlers of the Browsers contract.
import type { Handlers } from '../../http/route.ts'
import type { Browsers } from './browsers.ts'
import type { browsers as contract } from './contract.ts'

export const browserHandlers = (browsers: Browsers): Handlers<typeof contract> => ({
  createBrowser: ({ body, origin, signal }) => browsers.create(body, origin, signal),
  listBrowsers: ({ query, origin }) =>
    browsers.list(
      {
        status: query.status ?? (query.include_deleted ? 'all' : 'active'),
        query: query.query,
        tags: query.tags ?? {},
        region: query.region,
        offset: query.offset,
        limit: query.limit,
      },
      origin,
    ),
  getBrowser: ({ params, query, origin }) => browsers.get(params.id_or_name, query.include_deleted, origin),
  updateBrowser: ({ params, body, origin, signal }) => browsers.update(params.id_or_name, body, origin, signal),
  deleteBrowser: ({ params, query }) => browsers.delete(params.id_or_name, query.wait),
})
