// Makes the server that connections go through from a stored proxy, with the login that only the service knows.
import { proxySetting, type Config, type ProvidedProxyType } from '../../../base/config.ts'
import { fillPlaces, placesOf, type NamedProxy, type ProxyChoice } from '../../../base/proxy-url.ts'
import type { Sealer } from '../../../base/sealed.ts'
import type { Upstream } from '../../../egress/upstream.ts'
import { fault } from '../../../http/fault.ts'
import type { CreateProxy, Proxy } from './contract.ts'
import type { ProxyRow } from './rows.ts'

/** The part of a proxy that is stored encrypted. */
export interface Secrets {
  username?: string
  password?: string
  /** Certificates of authorities, PEM. */
  ca?: string
}

/** A proxy that cannot be used as it is stored. The message is for callers. */
export class Unusable extends Error {
  override name = 'Unusable'
}

export interface UpstreamSettings {
  /** For the purpose `proxies`. */
  sealer: Sealer
  provided: Config['proxies']
}

type Chosen = Partial<Record<ProxyChoice, string>>

/** A proxy's login and certificates. @throws Unusable */
export function secretsOf({ id, secrets }: ProxyRow, sealer: Sealer): Secrets {
  if (secrets === null) return {}
  try {
    return JSON.parse(sealer.open(secrets, id)) as Secrets
  } catch (cause) {
    throw new Unusable(
      'its password cannot be read any more, because the service does not have the key that has encrypted it (COB_SECRET_KEY, COB_SEALING_KEYS): create it again',
      { cause },
    )
  }
}

/** The server of a proxy. @throws Unusable */
export function upstreamOf(row: ProxyRow, { sealer, provided }: UpstreamSettings): Upstream {
  const { type, protocol, config, bypass_hosts: bypassHosts } = row
  if (type !== 'custom') return providedUpstream(type, provided[type], config, bypassHosts)
  const { username, password, ca } = secretsOf(row, sealer)
  return {
    protocol,
    host: config.host!,
    port: config.port!,
    // HTTP allows a password without a user name.
    ...((username ?? password) !== undefined && { username: username ?? '' }),
    ...(password !== undefined && { password }),
    // The proxy's own certificate may also be signed by a public authority.
    ...(ca !== undefined && { ca }),
    bypassHosts,
  }
}

function providedUpstream(type: ProvidedProxyType, server: NamedProxy | undefined, chosen: Chosen, bypassHosts: string[]): Upstream {
  if (!server) throw new Unusable(`this service has no server for proxies of the type ${type} any more (${proxySetting(type)})`)
  const { protocol, host, port, username, password } = server
  const left = [...placesOf(username).required].find((place) => chosen[place as ProxyChoice] === undefined)
  if (left !== undefined) throw new Unusable(`this service now needs a ${left} for proxies of the type ${type}: create it again`)
  return {
    protocol,
    host,
    port,
    ...(username !== undefined && { username: fillPlaces(username, written(chosen)) }),
    ...(password !== undefined && { password }),
    bypassHosts,
  }
}

/** The form in which providers of proxies write it. */
const written = (chosen: Chosen): Chosen =>
  Object.fromEntries(Object.entries(chosen).map(([name, value]) => [name, name === 'asn' ? value.replace(/^as/i, '') : value.toLowerCase()]))

/** A caller's choices for an operator's server, with defaults. @throws 400 naming the choice that this service cannot offer */
export function choose(
  { type, protocol, config = {} }: Exclude<CreateProxy, { type: 'custom' }>,
  server: NamedProxy | undefined,
): { protocol: NamedProxy['protocol']; config: Proxy['config'] } {
  const setting = proxySetting(type)
  if (!server) throw fault.field('type', `this service has no server for proxies of the type ${type}: its operator names one in ${setting}`)
  // The published command line sends https by default, so http and https both mean "the operator's protocol". The answer names the real one.
  if (protocol === 'socks5' && server.protocol !== 'socks5') throw fault.field('protocol', `is ${server.protocol} for the type ${type} (${setting})`)
  const chosen: Chosen = { ...config }
  const { all, required } = placesOf(server.username)
  // The documented defaults. A server where nobody can choose a country has no default country.
  if (chosen.country === undefined && all.has('country') && (type === 'datacenter' || type === 'isp' || chosen.zip !== undefined)) chosen.country = 'US'
  for (const name of Object.keys(chosen).filter((one) => !all.has(one)))
    throw fault.field(`config.${name}`, `cannot be chosen for the type ${type}: the user name in ${setting} has no {${name}}`)
  for (const name of required)
    if (chosen[name as ProxyChoice] === undefined) throw fault.field(`config.${name}`, `must be given for the type ${type} (${setting})`)
  return { protocol: server.protocol, config: chosen as Proxy['config'] }
}
