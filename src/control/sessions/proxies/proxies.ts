// The rules of proxies: create, find, rename, delete, check.
import { isIP } from 'node:net'
import type { Config } from '../../../base/config.ts'
import { newId } from '../../../base/ids.ts'
import type { Log } from '../../../base/log.ts'
import { mayReach, reachable, Unreachable, type ReachSettings } from '../../../egress/reachable.ts'
import type { Upstream } from '../../../egress/upstream.ts'
import { fault } from '../../../http/fault.ts'
import type { Page } from '../../../http/route.ts'
import { isProjectGone, type Db } from '../../../store/db.ts'
import { pageOf, type Asked } from '../../../store/lists.ts'
import { problemOfBundle } from './certificates.ts'
import { checkUpstream, type Checked } from './check.ts'
import type { CreateProxy, Proxy } from './contract.ts'
import { changeProxy, countLogins, deleteProxy, findProxies, insertProxy, listProxies, proxyOfSession, type ProxyRow } from './rows.ts'
import { choose, secretsOf, Unusable, upstreamOf, type Secrets, type UpstreamSettings } from './upstream.ts'

/** Most checks at once: each may take ten seconds and two connections. */
const MAX_CHECKS = 32
const CHECKS_RETRY_SECONDS = 5

interface ProxiesSettings extends UpstreamSettings {
  db: Db
  reach: ReachSettings
  /** The page that answers with the address of its client. */
  checkUrl: Config['proxyCheckUrl']
  log: Log
}

export type Proxies = ReturnType<typeof makeProxies>

export function makeProxies(settings: ProxiesSettings) {
  const { db, sealer, reach, checkUrl } = settings
  let checks = 0

  function present(row: ProxyRow): Proxy {
    return {
      id: row.id,
      type: row.type,
      protocol: row.protocol,
      config: { ...row.config, ...loginShown(row, settings) },
      bypass_hosts: row.bypass_hosts,
      ...(row.name !== null && { name: row.name }),
      ...(row.status !== null && { status: row.status as Checked['status'] }),
      ...(row.ip_address !== null && { ip_address: row.ip_address }),
      ...(row.last_checked && { last_checked: row.last_checked.toISOString() }),
    }
  }

  /** @throws 404; 400 when several have the name */
  async function find(project: string, idOrName: string): Promise<ProxyRow> {
    const [row, other] = await findProxies(db, project, idOrName)
    if (!row) throw fault.notFound('proxy', idOrName)
    if (other) throw fault.ambiguousProxyName(idOrName)
    return row
  }

  /** @throws 429 when too many checks are running */
  async function checked(row: ProxyRow, url: string | undefined, signal: AbortSignal): Promise<Checked> {
    if (checks >= MAX_CHECKS) throw fault.tooMany(`${MAX_CHECKS} proxies are being checked already, the limit`, CHECKS_RETRY_SECONDS)
    checks++
    try {
      return await checkUpstream(upstreamOf(row, settings), url, reach, signal)
    } catch (error) {
      if (error instanceof Unusable) return { status: 'unavailable', reason: error.message }
      throw error
    } finally {
      checks--
    }
  }

  return {
    /** @throws 400, also for a type that the operator has not provided */
    async create(project: string, wanted: CreateProxy): Promise<Proxy> {
      const id = newId()
      const { protocol, config, secrets } = stored(wanted, settings)
      const row = {
        id,
        project_id: project,
        name: wanted.name ?? null,
        type: wanted.type,
        protocol,
        config: JSON.stringify(config),
        secrets: secrets ? sealer.seal(JSON.stringify(secrets), id) : null,
        bypass_hosts: wanted.bypass_hosts ?? [],
      }
      return present(
        await insertProxy(db, row).catch((error: unknown) => {
          throw isProjectGone(error) ? fault.projectNotFound(project) : error
        }),
      )
    },
    async list(project: string, filter: Asked): Promise<Page<Proxy>> {
      return pageOf(await listProxies(db, project, filter), filter, present)
    },
    get: async (project: string, idOrName: string): Promise<Proxy> => present(await find(project, idOrName)),
    async rename(project: string, idOrName: string, name: string): Promise<Proxy> {
      const row = await changeProxy(db, (await find(project, idOrName)).id, { name })
      if (!row) throw fault.notFound('proxy', idOrName)
      return present(row)
    },
    /** Sessions that use the proxy keep it. @throws 400 while an auth connection uses it */
    async delete(project: string, idOrName: string): Promise<void> {
      const { id } = await find(project, idOrName)
      if (await deleteProxy(db, id)) return
      const uses = await countLogins(db, id)
      throw uses > 0 ? fault.inUse(`${uses} auth connections use this proxy; change or delete them first`) : fault.notFound('proxy', idOrName)
    },
    /** Checks it. With `url`, the stored status does not change. @throws also 400 for a host that callers may not reach, and 429 */
    async check(project: string, idOrName: string, url: string | undefined, signal: AbortSignal): Promise<Proxy> {
      const row = await find(project, idOrName)
      if (url !== undefined) await assertReachable(url, reach, signal)
      const { status, reason, ip } = await checked(row, url ?? checkUrl, signal)
      const found = { status, ip_address: ip ?? null, last_checked: new Date() }
      const after = url === undefined ? await changeProxy(db, row.id, found) : { ...row, ...found }
      if (!after) throw fault.notFound('proxy', idOrName)
      return { ...present(after), ...(reason !== undefined && { status_reason: reason }) }
    },
    /** The id of the proxy in an option of a browser. @throws 400 naming `field` */
    async idOf(project: string, by: { id: string } | { name: string }, field: string): Promise<string> {
      const idOrName = 'id' in by ? by.id : by.name
      const [row, other] = await findProxies(db, project, by)
      if (!row) throw fault.field(field, `there is no proxy "${idOrName.slice(0, 100)}"`)
      if (other) throw fault.ambiguousProxyName(idOrName)
      return row.id
    },
    /**
     * The server of a session's proxy with its login, for the connection itself only. A deleted proxy is found as long as a session uses it. @throws Unusable
     */
    async upstream(project: string, id: string): Promise<Upstream> {
      const row = await proxyOfSession(db, project, id)
      if (!row) throw new Unusable('the proxy does not exist any more')
      return upstreamOf(row, settings)
    },
    /**
     * The address that sites see behind a session's proxy: the result of the last check. Without a check, the address of the server itself, if the caller has
     * named it.
     */
    async exitOf(project: string, id: string, signal: AbortSignal): Promise<string | undefined> {
      const row = await proxyOfSession(db, project, id)
      if (!row || row.ip_address !== null || row.type !== 'custom') return row?.ip_address ?? undefined
      return reachable(row.config.host!, reach, signal).catch((error: unknown) => {
        if (!(error instanceof Unreachable)) throw error
        return undefined
      })
    },
  }
}

/** A list must not fail because one login cannot be decrypted; a check of that proxy reports the reason. */
function loginShown(row: ProxyRow, { sealer, log }: Pick<ProxiesSettings, 'sealer' | 'log'>): { username?: string } {
  try {
    const { username } = secretsOf(row, sealer)
    return username === undefined ? {} : { username }
  } catch (err) {
    if (!(err instanceof Unusable)) throw err
    log.warn({ proxy: row.id }, 'the login of a proxy cannot be read')
    return {}
  }
}

/** @throws 400 */
function assertServer({ host, ca_bundle: ca }: Extract<CreateProxy, { type: 'custom' }>['config'], reach: ReachSettings): void {
  if (isIP(host) && !mayReach(host, reach)) throw fault.field('config.host', 'is an address that is closed to callers')
  const problem = ca === undefined ? undefined : problemOfBundle(ca)
  if (problem !== undefined) throw fault.field('config.ca_bundle', problem)
}

function stored(
  wanted: CreateProxy,
  { provided, reach }: Pick<ProxiesSettings, 'provided' | 'reach'>,
): { protocol: Proxy['protocol']; config: Proxy['config']; secrets: Secrets | undefined } {
  if (wanted.type !== 'custom') return { ...choose(wanted, provided[wanted.type]), secrets: undefined }
  const { host, port, username, password, ca_bundle: ca } = wanted.config
  assertServer(wanted.config, reach)
  const secrets: Secrets = { ...(username !== undefined && { username }), ...(password !== undefined && { password }), ...(ca !== undefined && { ca }) }
  return {
    protocol: wanted.protocol,
    config: { host, port, has_password: password !== undefined, has_ca_bundle: ca !== undefined },
    secrets: Object.keys(secrets).length > 0 ? secrets : undefined,
  }
}

/** @throws 400 */
async function assertReachable(url: string, reach: ReachSettings, signal: AbortSignal): Promise<void> {
  await reachable(new URL(url).hostname, reach, signal).catch((error: unknown) => {
    throw error instanceof Unreachable ? fault.field('url', error.message) : error
  })
}
