// Wires managed auth with the groups that it needs: profiles, proxies, telemetry destinations, the live view.
import { NO_CREDENTIALS, openManagedAuth, type ManagedAuth, type ManagedAuthSettings } from './auth-connections/open.ts'
import type { BrowserRow } from './browsers/rows.ts'
import type { LiveLinks } from './live/links.ts'
import type { Profiles } from './profiles/profiles.ts'
import type { Proxies } from './proxies/proxies.ts'
import type { TelemetryExports } from './telemetry/exports.ts'
import type { Config } from '../base/config.ts'

interface Parts extends Pick<ManagedAuthSettings, 'db' | 'scope' | 'secretKey' | 'leases' | 'bells' | 'log'> {
  config: Config
  profiles: Pick<Profiles, 'idOfNamed'>
  proxies: Pick<Proxies, 'idOf'>
  telemetryExports: Pick<TelemetryExports, 'nameDestination'>
  /** Also one that has ended, of any project. */
  findSession: (project: undefined, id: string) => Promise<BrowserRow | undefined>
  links: LiveLinks
}

export const wireManagedAuth = ({ profiles, proxies, telemetryExports, findSession, links, ...parts }: Parts): ManagedAuth =>
  openManagedAuth({
    ...parts,
    credentials: NO_CREDENTIALS,
    profileNamed: (project, name) => profiles.idOfNamed(project, name, 'profile_name'),
    names: { region: parts.config.region, proxyIdOf: proxies.idOf, nameDestination: telemetryExports.nameDestination },
    async liveViewUrl(id, at) {
      const row = await findSession(undefined, id)
      return row?.state === 'running' ? at + links.path(row, 'control') : undefined
    },
  })
