// The OpenAPI document of the whole API.
import { VERSION } from '../../base/version.ts'
import { openapi } from '../../http/openapi.ts'
import type { Contract } from '../../http/route.ts'

/** The document as text; the committed openapi.json equals it. */
export function openapiText(contracts: readonly Contract[]): string {
  const info = { title: 'Cob', version: VERSION, description: 'A browser cloud for AI agents. WebSockets (CDP, BiDi) are reached by the URLs in a session.' }
  return `${JSON.stringify(openapi(info, contracts), null, 2)}\n`
}
