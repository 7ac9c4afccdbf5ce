// The list of all groups, in the order in which they are opened: a module uses only those before it. Central lists are computed from this list.
import type { Contract } from '../http/route.ts'
import type { Db } from '../store/db.ts'
import type { SealedColumn } from '../store/sealed-columns.ts'
import type { ObjectOwner } from '../store/sweep.ts'
import { account } from './access/account/module.ts'
import { apiKeys } from './access/api-keys/module.ts'
import { auditLogs } from './access/audit-logs/module.ts'
import { members } from './access/members/module.ts'
import { oauth } from './access/oauth/module.ts'
import { admission } from './access/principal.ts'
import { projects } from './access/projects/module.ts'
import { signIn } from './access/sign-in/module.ts'
import { apps } from './apps/apps/module.ts'
import { deployments } from './apps/deployments/module.ts'
import { invocations } from './apps/invocations/module.ts'
import { authConnections } from './logins/auth-connections/module.ts'
import { credentialProviders } from './logins/credential-providers/module.ts'
import { credentials } from './logins/credentials/module.ts'
import type { Module } from './module.ts'
import { dashboard } from './service/dashboard/module.ts'
import { mcp } from './service/mcp/module.ts'
import { system } from './service/system/module.ts'
import { browserPools } from './sessions/browser-pools/module.ts'
import { browsers } from './sessions/browsers/module.ts'
import { watched } from './sessions/browsers/watched.ts'
import { extensions } from './sessions/extensions/module.ts'
import { live } from './sessions/live/module.ts'
import { profiles } from './sessions/profiles/module.ts'
import { proxies } from './sessions/proxies/module.ts'
import { replays } from './sessions/replays/module.ts'
import { telemetry } from './sessions/telemetry/module.ts'

export const modules: readonly Module[] = [
  dashboard,
  apiKeys,
  projects,
  members,
  account,
  auditLogs,
  signIn,
  oauth,
  admission,
  watched,
  replays,
  profiles,
  telemetry,
  proxies,
  extensions,
  browsers,
  browserPools,
  live,
  deployments,
  apps,
  invocations,
  credentials,
  credentialProviders,
  authConnections,
  system,
  mcp,
] as Module[]

export const contracts: readonly Contract[] = modules.flatMap((module) => module.contracts ?? [])

/** All columns with encrypted values. */
export const sealedColumns: readonly SealedColumn[] = modules.flatMap((module) => module.sealed ?? [])

/** The kinds of rows that name objects. */
export const objectOwners = (db: Db, scope: string): ObjectOwner[] => modules.flatMap((module) => (module.objects ?? []).map((owner) => owner(db, scope)))

/** Work that one replica does for all. */
export const duties: readonly string[] = modules.flatMap((module) => module.duties ?? [])
