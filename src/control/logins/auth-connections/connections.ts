// The rules of connections: create, change, delete; what a login is started with, asked and shown. How flows change: flows.ts; what they do: the engine.
import { sql } from 'kysely'
import { newId } from '../../../base/ids.ts'
import { fault } from '../../../http/fault.ts'
import { isAccount, type Page, type Principal } from '../../../http/route.ts'
import { isDuplicate, isProjectGone, type Db } from '../../../store/db.ts'
import { mayAct } from './acting.ts'
import { rescheduled, withoutRefusal } from './check-rules.ts'
import {
  CHECK_SECONDS,
  type BeginLogin,
  type Connection,
  type CreateConnection,
  type CredentialReference,
  type FlowEvent,
  type LoginBegun,
  type Submission,
  type TimelineItem,
  type UpdateConnection,
} from './contract.ts'
import { followFlow } from './follow.ts'
import { lastLogins, listFlows, type FlowRow, type FlowType } from './flow-rows.ts'
import type { Flows } from './flows.ts'
import { present, timelineItem, type Links, type Referred } from './present.ts'
import { canReauth, itemVersion, type Source } from './reauth.ts'
import {
  changeConnection,
  connectionsOfProfile,
  deleteConnection,
  findConnection,
  idOfPair,
  insertConnection,
  listConnections,
  type ConnectionFilter,
  type ConnectionRow,
  type ConnectionWithProfile,
  type StoredBrowser,
} from './rows.ts'
import { answerTo } from './submit.ts'
import { askedOf, resolveBrowser, storedBrowser, type BrowserNames } from './wanted-browser.ts'

/** Tries to make a connection while its profile is being made or deleted by others. */
const CREATE_TRIES = 3

/** What connections need of stored credentials and providers. */
export interface CredentialLinks {
  /** Undefined when there is none of that name. */
  credentialIdOf(project: string, name: string): Promise<string | undefined>
  providerIdOf(nameOrId: string): Promise<string | undefined>
  /** Whether a provider has an item at a path that is meant for a domain; undefined when it cannot be asked now. */
  itemFits(providerId: string, path: string, domain: string, signal: AbortSignal): Promise<boolean | undefined>
  /** What is known of these without their values; deleted ones are missing. */
  credentials(ids: readonly string[]): Promise<Map<string, { name: string; keys: readonly string[]; hasTotp: boolean; version: string }>>
  providers(ids: readonly string[]): Promise<Map<string, { name: string }>>
}

export interface ConnectionsSettings {
  db: Db
  scope: string
  flows: Flows
  credentials: CredentialLinks
  names: BrowserNames
  /** The id of the profile of this name, which is made when there is none. @throws 400 for a name that no profile may have */
  profileNamed: (project: string, name: string) => Promise<string>
  codeOf: (flowId: string) => string
  /** The path of the page on which a person goes on with a login. */
  hostedPath: (connectionId: string, code: string) => string
  /** Where a person sees the browser of a login and, with `act`, may act in it while the login waits for that; undefined when it has none. */
  liveViewUrl: (browserId: string, origin: string, access: 'act' | 'watch') => Promise<string | undefined>
  now?: () => number
  random?: () => number
}

export interface Connections {
  /** @throws 400; 409 with the id of the connection of the same profile and domain */
  create(by: Principal, wanted: CreateConnection, origin: string, signal: AbortSignal): Promise<Connection>
  list(project: string, filter: ConnectionFilter, origin: string): Promise<Page<Connection>>
  /** @throws 404, as all that follow */
  get(project: string, id: string, origin: string): Promise<Connection>
  /** @throws 400 */
  update(by: Principal, id: string, changes: UpdateConnection, origin: string, signal: AbortSignal): Promise<Connection>
  delete(project: string, id: string): Promise<void>
  /** @throws 400; 409 while another login is in progress, or too many are */
  login(by: Principal, id: string, wanted: BeginLogin, origin: string): Promise<LoginBegun>
  /** @throws 400; 409 when the question is over or has been answered */
  submit(project: string, id: string, submission: Submission): Promise<{ accepted: boolean }>
  follow(project: string, id: string, origin: string, signal: AbortSignal): Promise<AsyncIterable<FlowEvent>>
  timeline(project: string, id: string, filter: { type?: FlowType | undefined; offset: number; limit: number }): Promise<Page<TimelineItem>>
  /** The connections of a profile that was deleted go with it. */
  profileDeleted(profileId: string): Promise<void>
}

/** Items of providers belong to the whole organization. A caller of one project gets only those typed that are meant for the site, where they are meant for. */
const isOfProject = ({ by }: Principal): boolean => !isAccount(by) || by.project !== undefined

/** What is known of the values of these connections. Also for the rules of checks. */
export async function referredBy(
  links: Pick<CredentialLinks, 'credentials' | 'providers'>,
  rows: readonly ConnectionRow[],
): Promise<(row: ConnectionRow) => Referred> {
  const ids = (of: (row: ConnectionRow) => string | null) => [...new Set(rows.map(of).filter((id) => id !== null))]
  const [stored, external] = [ids((row) => row.credential_id), ids((row) => row.provider_id)]
  const [credentials, providers] = await Promise.all([
    stored.length > 0 ? links.credentials(stored) : new Map<string, never>(),
    external.length > 0 ? links.providers(external) : new Map<string, never>(),
  ])
  return (row) => {
    const credential = credentials.get(row.credential_id ?? '')
    const provider = providers.get(row.provider_id ?? '')
    const source: Source = credential
      ? { kind: 'stored', ...credential }
      : provider && { kind: 'external', version: itemVersion(row.provider_id!, row.provider_path) }
    return { source, credentialName: credential?.name, providerName: provider?.name }
  }
}

export function makeConnections(settings: ConnectionsSettings): Connections {
  const { db, scope, flows, credentials, names, profileNamed, codeOf, hostedPath, liveViewUrl, now = Date.now, random = Math.random } = settings
  const moment = () => ({ at: now(), random: random() })

  async function find(project: string, id: string, tx: Db = db): Promise<ConnectionWithProfile> {
    const row = await findConnection(tx, { scope, project }, id)
    if (!row) throw fault.notFound('auth connection', id)
    return row
  }

  async function linksOf(flow: FlowRow | undefined, origin: string): Promise<Links> {
    if (flow?.state !== 'IN_PROGRESS') return { hostedUrl: undefined, liveViewUrl: undefined }
    const access = mayAct(flow) ? 'act' : 'watch'
    return {
      // A login that the service started by itself has no page.
      hostedUrl: flow.code_hash === null ? undefined : origin + hostedPath(flow.connection_id, codeOf(flow.id)),
      liveViewUrl: flow.browser_id === null ? undefined : await liveViewUrl(flow.browser_id, origin, access),
    }
  }

  /** In one snapshot: a login that ends meanwhile must not be shown as a success beside a connection that is not logged in. */
  async function shown(read: (tx: Db) => Promise<ConnectionWithProfile[]>, origin: string): Promise<Connection[]> {
    const snapshot = db.transaction().setIsolationLevel('repeatable read')
    const { rows, last } = await snapshot.execute(async (tx) => {
      const found = await read(tx)
      return {
        rows: found,
        last: await lastLogins(
          tx,
          found.map(({ id }) => id),
        ),
      }
    })
    const referred = await referredBy(credentials, rows)
    return Promise.all(
      rows.map(async (row) => {
        const flow = last.get(row.id)
        return present(row, flow, referred(row), await linksOf(flow, origin))
      }),
    )
  }

  const show = async (project: string, id: string, origin: string): Promise<Connection> =>
    (await shown(async (tx) => [await find(project, id, tx)], origin))[0]!

  /** @throws 400 */
  async function credentialColumns(project: string, given: CredentialReference | undefined) {
    if (given === undefined) return undefined
    const { name, provider, path } = given
    if (name !== undefined) {
      const id = await credentials.credentialIdOf(project, name)
      if (id === undefined) throw fault.field('credential.name', `there is no credential "${name.slice(0, 100)}"`)
      return { credential_id: id, provider_id: null, provider_path: null }
    }
    const id = await credentials.providerIdOf(provider!)
    if (id === undefined) throw fault.field('credential.provider', `there is no credential provider "${provider!.slice(0, 100)}"`)
    return { credential_id: null, provider_id: id, provider_path: path ?? null }
  }

  /** @throws 400 for an item of a provider that a caller of one project may not have typed at the site. A provider that does not answer is asked again at the login. */
  async function assertFits(
    { provider_id: provider, provider_path: path }: Pick<ConnectionRow, 'provider_id' | 'provider_path'>,
    domain: string,
    signal: AbortSignal,
  ): Promise<void> {
    if (provider === null || path === null || (await credentials.itemFits(provider, path, domain, signal)) !== false) return
    throw fault.field('credential.path', `the provider has no item at this path with a URL of ${domain}, which an API key of one project needs`)
  }

  async function end(id: string, why: string): Promise<void> {
    await flows.cancel(id, why)
    await deleteConnection(db, id)
  }

  return {
    async create(by, wanted, origin, signal) {
      const { project } = by
      const resolved = await resolveBrowser(names, project, wanted)
      const credential = await credentialColumns(project, wanted.credential)
      if (credential && isOfProject(by)) await assertFits(credential, wanted.domain, signal)
      for (let left = CREATE_TRIES; ; left--) {
        const profile = await profileNamed(project, wanted.profile_name)
        const refuseSecond = async () => {
          const existing = await idOfPair(db, project, profile, wanted.domain)
          if (existing !== undefined) throw fault.exists(`there is a connection of the profile "${wanted.profile_name}" at ${wanted.domain} already`, existing)
        }
        await refuseSecond()
        const id = newId()
        const row = {
          id,
          scope,
          project_id: project,
          profile_id: profile,
          domain: wanted.domain,
          login_url: wanted.login_url ?? null,
          allowed_domains: wanted.allowed_domains ?? [],
          auto_reauth: wanted.auto_reauth ?? true,
          health_checks: wanted.health_checks ?? true,
          health_check_seconds: wanted.health_check_interval ?? CHECK_SECONDS.usual,
          record_session: wanted.record_session ?? false,
          save_credentials: wanted.save_credentials ?? true,
          credential_id: null,
          provider_id: null,
          provider_path: null,
          ...credential,
          by_project_key: isOfProject(by),
          proxy_id: resolved.proxy_id ?? null,
          browser: JSON.stringify(storedBrowser({ stealth: true } satisfies StoredBrowser, resolved)),
        }
        try {
          if (await insertConnection(db, row)) return await show(project, id, origin)
        } catch (error) {
          if (isProjectGone(error)) throw fault.projectNotFound(project)
          if (!isDuplicate(error, 'auth_connections_pair')) throw error
          await refuseSecond()
        }
        // The profile, or the other connection, has just been deleted.
        if (left <= 1) throw fault.conflict('the profile of this connection is being changed by others at the same time')
      }
    },

    async list(project, filter, origin) {
      // One more than asked for says whether there is another page.
      const found = await shown((tx) => listConnections(tx, { scope, project }, filter), origin)
      return { items: found.slice(0, filter.limit), nextOffset: found.length > filter.limit ? filter.offset + filter.limit : undefined }
    },

    get: show,

    async update(by, id, changes, origin, signal) {
      const { project } = by
      const resolved = await resolveBrowser(names, project, changes)
      const credential = await credentialColumns(project, changes.credential)
      const setsPlaces = isOfProject(by) && (credential !== undefined || changes.allowed_domains !== undefined || typeof resolved.proxy_id === 'string')
      if (setsPlaces) {
        const before = await find(project, id)
        await assertFits(credential ?? before, before.domain, signal)
      }
      await db.transaction().execute(async (tx) => {
        await sql`select from auth_connections where id = ${id} for no key update`.execute(tx)
        const row = await findConnection(tx, { scope, project }, id)
        if (!row) throw fault.notFound('auth connection', id)
        const { login_url: url, health_checks: isChecked = row.health_checks, health_check_interval: seconds = row.health_check_seconds } = changes
        const isRescheduled = isChecked !== row.health_checks || seconds !== row.health_check_seconds
        await changeConnection(tx, id, {
          ...(changes.allowed_domains !== undefined && { allowed_domains: changes.allowed_domains }),
          ...(changes.auto_reauth !== undefined && { auto_reauth: changes.auto_reauth }),
          ...(changes.record_session !== undefined && { record_session: changes.record_session }),
          ...(changes.save_credentials !== undefined && { save_credentials: changes.save_credentials }),
          ...(url !== undefined && { login_url: url || null }),
          ...(credential && { ...credential, checks: JSON.stringify(withoutRefusal(row.checks)) }),
          // Only an operator who names the credential decides where it is typed.
          ...((setsPlaces || credential) && { by_project_key: setsPlaces }),
          ...(resolved.proxy_id !== undefined && { proxy_id: resolved.proxy_id }),
          browser: JSON.stringify(storedBrowser(row.browser, resolved)),
          ...(isRescheduled && {
            health_checks: isChecked,
            health_check_seconds: seconds,
            next_check_at: rescheduled({ ...row, health_checks: isChecked, health_check_seconds: seconds }, moment()),
          }),
        })
      })
      return show(project, id, origin)
    },

    async delete(project, id) {
      await find(project, id)
      await end(id, 'the connection was deleted')
    },

    async login(by, id, { record_session: record, skill_mode: _, ...given }, origin) {
      const { project } = by
      const row = await find(project, id)
      const resolved = await resolveBrowser(names, project, given)
      const { can_reauth: isReauth } = canReauth(row.learned, (await referredBy(credentials, [row]))(row).source, row.checks.refused)
      const { flow, code } = await flows.begin(row, isReauth ? 'reauth' : 'login', askedOf(resolved, record, isOfProject(by)))
      return {
        id,
        flow_type: isReauth ? 'REAUTH' : 'LOGIN',
        flow_expires_at: flow.expires_at.toISOString(),
        hosted_url: origin + hostedPath(id, code),
        handoff_code: code,
      }
    },

    async submit(project, id, submission) {
      await find(project, id)
      const flow = (await lastLogins(db, [id])).get(id)
      const isLive = flow?.state === 'IN_PROGRESS'
      if (isLive && flow.answer !== null) throw fault.conflict('the last answer is still being worked on')
      const isAsking = isLive && flow.pause !== null && (flow.step === 'AWAITING_INPUT' || flow.step === 'AWAITING_EXTERNAL_ACTION')
      const answer = answerTo(isAsking ? flow.pause! : undefined, submission)
      if (!(await flows.answer(flow!.id, answer))) throw fault.conflict('the question is over, or has been answered just now')
      return { accepted: true }
    },

    async follow(project, id, origin, signal) {
      await find(project, id)
      const last = (await lastLogins(db, [id])).get(id)
      return followFlow({ read: () => findConnection(db, { scope, project }, id), last, flows, linksOf, origin }, signal)
    },

    async timeline(project, id, filter) {
      await find(project, id)
      const rows = await listFlows(db, id, filter)
      return { items: rows.slice(0, filter.limit).map(timelineItem), nextOffset: rows.length > filter.limit ? filter.offset + filter.limit : undefined }
    },

    async profileDeleted(profileId) {
      for (const id of await connectionsOfProfile(db, profileId)) await end(id, 'the profile was deleted')
    },
  }
}
