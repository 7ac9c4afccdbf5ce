// The key of a request.
import type { IncomingMessage } from 'node:http'

/** The token in `Authorization: Bearer …`. */
export const bearer = (request: Pick<IncomingMessage, 'headers'>): string | undefined => /^Bearer ([^\s]+)$/i.exec(request.headers.authorization ?? '')?.[1]
