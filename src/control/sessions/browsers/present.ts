// Makes the answers of the API from the rows of sessions.
import { PUBLIC_SOCKETS } from '../../../agent/session/contract.ts'
import { pathTo } from '../../../http/route.ts'
import type { Browser } from './contract.ts'
import type { EndReason } from './end-step.ts'
import { browserRules } from './fitter.ts'
import { SESSION_PATH } from './contract.ts'
import type { Place } from './options/option/contract.ts'
import type { BrowserRow } from './rows.ts'
import type { SessionProfiles } from './session-profiles.ts'
import type { SessionTokens } from './tokens.ts'

interface PresentSettings {
  tokens: Pick<SessionTokens, 'sign'>
  /** The path of a session's live view. */
  livePath: (row: Pick<BrowserRow, 'id' | 'lease'>, access: 'control' | 'watch') => string
  profiles: Pick<SessionProfiles, 'shown'>
  /** The names of pools by id, also of deleted pools. A pool without a name has an entry, too. */
  poolNames: (ids: readonly string[]) => Promise<Map<string, string | undefined>>
  place: Place
}

/**
 * Makes the answers for sessions. `origin` is the API's origin as the caller reaches it. `known` has the names of their pools, if the caller of this function
 * has them already. With `watch`, the addresses have no tokens, and the live view is read-only.
 */
export type Present = (rows: readonly BrowserRow[], origin: string, known?: Map<string, string | undefined>, access?: 'control' | 'watch') => Promise<Browser[]>

export function makePresent({ tokens, livePath, profiles, poolNames, place }: PresentSettings): Present {
  return async (rows, origin, known, access = 'control') => {
    const ws = origin.replace(/^http/, 'ws')
    const pools = [...new Set(rows.flatMap(({ pool_id: pool }) => pool ?? []))]
    const [shown, names] = await Promise.all([profiles.shown(rows), known ?? (pools.length === 0 ? new Map<string, undefined>() : poolNames(pools))])
    const show = async (row: BrowserRow): Promise<Browser> => {
      const profile = row.profile_id === null ? undefined : shown.get(row.profile_id)
      const proof = access === 'watch' ? '' : `?jwt=${await tokens.sign(row, new URL(origin).hostname)}`
      const pool = row.pool_id === null ? undefined : { id: row.pool_id, ...(names.get(row.pool_id) !== undefined && { name: names.get(row.pool_id) }) }
      return {
        session_id: row.id,
        created_at: row.created_at!.toISOString(),
        cdp_ws_url: `${ws}${pathTo(PUBLIC_SOCKETS.cdp, { id: row.id })}${proof}`,
        webdriver_ws_url: `${ws}${pathTo(PUBLIC_SOCKETS.bidi, { id: row.id })}${proof}`,
        base_url: `${origin}${SESSION_PATH}/${row.id}`,
        browser_live_view_url: origin + livePath(row, access),
        ...browserRules.shown(row.options, place),
        ...(profile && { profile: { ...profile, ...(row.profile_end && { save: row.profile_end }) }, profile_save_changes: row.profile_save }),
        ...(pool && { pool }),
        timeout_seconds: row.timeout_seconds,
        tags: row.tags,
        usage: { uptime_ms: Math.max(0, (row.deleted_at ?? new Date()).getTime() - row.created_at!.getTime()) },
        ...(row.name !== null && { name: row.name }),
        ...(row.deleted_at && { deleted_at: row.deleted_at.toISOString(), ...(row.end_reason !== null && { end_reason: row.end_reason as EndReason }) }),
      }
    }
    return Promise.all(rows.map(show))
  }
}
