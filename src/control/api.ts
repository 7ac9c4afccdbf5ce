// The whole API: the contracts of all groups, and the document made of them.
import { VERSION } from '../base/version.ts'
import { openapi } from '../http/openapi.ts'
import type { Contract } from '../http/route.ts'
import { apps } from './apps/contract.ts'
import { authConnections } from './auth-connections/contract.ts'
import { browserPools } from './browser-pools/contract.ts'
import { browsers, cdpHttp } from './browsers/contract.ts'
import { instanceApis } from './browsers/instance-apis.ts'
import { credentials } from './credentials/contract.ts'
import { deployments } from './deployments/contract.ts'
import { extensions } from './extensions/contract.ts'
import { invocations } from './invocations/contract.ts'
import { oauth } from './oauth/contract.ts'
import { account } from './org/account/contract.ts'
import { apiKeys } from './org/api-keys/contract.ts'
import { auditLogs } from './org/audit-logs/contract.ts'
import { auditExports } from './org/audit-logs/exports/contract.ts'
import { members } from './org/members/contract.ts'
import { projects } from './org/projects/contract.ts'
import { profiles } from './profiles/contract.ts'
import { credentialProviders } from './credential-providers/contract.ts'
import { proxies } from './proxies/contract.ts'
import { replays } from './replays/contract.ts'
import { signIn } from './sign-in/contract.ts'
import { system } from './system/contract.ts'
import { telemetryDestinations } from './telemetry/destinations/contract.ts'
import { telemetryArchive } from './telemetry/contract.ts'

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
