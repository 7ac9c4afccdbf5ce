// The whole API: the contracts of all groups, and the document made of them.
import { VERSION } from '../base/version.ts'
import { openapi } from '../http/openapi.ts'
import type { Contract } from '../http/route.ts'
import { apps } from './apps/apps/contract.ts'
import { authConnections } from './logins/auth-connections/contract.ts'
import { browserPools } from './sessions/browser-pools/contract.ts'
import { browsers, cdpHttp } from './sessions/browsers/contract.ts'
import { instanceApis } from './sessions/browsers/instance-apis.ts'
import { credentials } from './logins/credentials/contract.ts'
import { deployments } from './apps/deployments/contract.ts'
import { extensions } from './sessions/extensions/contract.ts'
import { invocations } from './apps/invocations/contract.ts'
import { oauth } from './access/oauth/contract.ts'
import { account } from './access/account/contract.ts'
import { apiKeys } from './access/api-keys/contract.ts'
import { auditLogs } from './access/audit-logs/contract.ts'
import { auditExports } from './access/audit-logs/exports/contract.ts'
import { members } from './access/members/contract.ts'
import { projects } from './access/projects/contract.ts'
import { profiles } from './sessions/profiles/contract.ts'
import { credentialProviders } from './logins/credential-providers/contract.ts'
import { proxies } from './sessions/proxies/contract.ts'
import { replays } from './sessions/replays/contract.ts'
import { signIn } from './access/sign-in/contract.ts'
import { system } from './service/system/contract.ts'
import { telemetryDestinations } from './sessions/telemetry/destinations/contract.ts'
import { telemetryArchive } from './sessions/telemetry/contract.ts'

export const contracts: Contract[] = [
  browsers,
  cdpHttp,
  replays,
  telemetryArchive,
  instanceApis,
  browserPools,
  profiles,
  proxies,
  credentials,
  telemetryDestinations,
  authConnections,
  credentialProviders,
  deployments,
  apps,
  invocations,
  extensions,
  apiKeys,
  projects,
  auditLogs,
  auditExports,
  members,
  account,
  signIn,
  oauth,
  system,
]

/** The OpenAPI document as text; the committed openapi.json is exactly this. */
export function openapiText(): string {
  const info = { title: 'Cob', version: VERSION, description: 'A browser cloud for AI agents. WebSockets (CDP, BiDi) are reached by the URLs in a session.' }
  return `${JSON.stringify(openapi(info, contracts), null, 2)}\n`
}
