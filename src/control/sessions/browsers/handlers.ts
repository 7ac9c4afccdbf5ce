// Handlers of the Browsers contract.
import { known, type Handlers } from '../../../http/route.ts'
import type { Browsers } from './browsers.ts'
import type { browsers as contract } from './contract.ts'

/** Headers for data from an instance: browsers may show it only as a picture. */
const INERT = { 'cache-control': 'private, no-cache', 'content-security-policy': "sandbox; default-src 'none'", 'x-content-type-options': 'nosniff' }

export const browserHandlers = (browsers: Browsers): Handlers<typeof contract> => ({
  createBrowser: ({ principal, body, origin, signal }) => browsers.create(known(principal), body, origin, signal),
  listBrowsers: ({ principal, query, origin }) =>
    browsers.list(
      known(principal),
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
  getBrowser: ({ principal, params, query, origin }) => browsers.get(known(principal), params.id_or_name, query.include_deleted, origin),
  async getBrowserThumbnail({ principal, params, headers, signal }) {
    const found = await browsers.thumbnail(known(principal), params.id_or_name, signal)
    if (!found) return { status: 204, headers: {}, body: Buffer.alloc(0) }
    const { etag, png } = found
    const isKnown = headers['if-none-match']?.split(', ').includes(etag) === true
    return { ...(isKnown && { status: 304 }), headers: { ...INERT, etag }, body: isKnown ? Buffer.alloc(0) : png }
  },
  updateBrowser: ({ principal, params, body, origin, signal }) => browsers.update(known(principal), params.id_or_name, body, origin, signal),
  deleteBrowser: ({ principal, params, query }) => browsers.delete(known(principal), params.id_or_name, query.wait),
})
