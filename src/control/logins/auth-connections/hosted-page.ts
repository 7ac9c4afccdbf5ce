// The hosted login page, which people open by the address of a login. It is the same for every address; its script uses the public calls for everything else.
import type { FastifyInstance } from 'fastify'
import { HTML, pageHeaders, type Pages } from '../../service/dashboard/pages.ts'

/** The path of hosted pages. The next segment is the id of a connection; the code is in the query, which is never logged. */
export const HOSTED_PATH = '/auth/login'

/** The address of a login for a person. The code works once. Integrators add `success_url` and `error_url`. */
export const hostedPath = (connectionId: string, code: string): string =>
  `${HOSTED_PATH}/${encodeURIComponent(connectionId)}?${new URLSearchParams({ code }).toString()}`

/**
 * Adds the page. It is for people, so it is not part of the API. It shows the live view in a frame. There is no cross-origin-opener-policy: integrators that
 * open the page in its own window need to see when it is closed.
 */
export function serveHostedPage(app: FastifyInstance, pages: Pick<Pages, 'render'>): void {
  app.get(`${HOSTED_PATH}/:id`, { config: { id: 'hostedPage' } }, async (_request, reply) =>
    reply
      .headers(pageHeaders('none', { 'frame-src': "'self'" }))
      .type(HTML)
      .send(await pages.render('login')),
  )
}
