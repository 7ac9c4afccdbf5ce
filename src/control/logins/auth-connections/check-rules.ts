// When a connection is checked next, and what the result of a check means for it. No clock, no database.
import type { ErrorCode } from './contract.ts'
import type { FlowState } from './lifecycle.ts'
import type { Checks, ConnectionRow } from './rows.ts'

/** Of health checks: so many in a row that could not tell mean that somebody has to look. */
export const MOST_INCONCLUSIVE = 3
/** The wait after a check that could not tell or was not done, and after the first re-login that failed; each further one waits twice as long. */
const RETRY_SECONDS = 60
/** The longest wait between two tries: the largest interval of checks. */
const MOST_SECONDS = 86_400
/** Connections that were made together must not be checked together for ever: up to a tenth of the interval earlier or later. */
const JITTER = 0.1

/** `inconclusive`: the site has told nothing. `not_done`: it was not asked, for reasons of ours. */
export type CheckResult = 'AUTHENTICATED' | 'NEEDS_AUTH' | 'inconclusive' | 'not_done'

/** What a check may fail by that is the site's doing. No room for a browser, no time, a service that was down, and mistakes of ours say nothing about a connection. */
const BY_SITE: readonly ErrorCode[] = ['website_error', 'bot_detected', 'captcha_blocked']

/** What the end of a check says. */
export function resultOf({ state, errorCode }: { state: FlowState; errorCode?: ErrorCode }): CheckResult {
  if (state === 'AUTHENTICATED' || state === 'NEEDS_AUTH') return state
  return errorCode !== undefined && BY_SITE.includes(errorCode) ? 'inconclusive' : 'not_done'
}

type Rules = Pick<ConnectionRow, 'health_checks' | 'health_check_seconds' | 'auto_reauth' | 'status' | 'checks'>

/** The time, and a number from 0 to 1 by which waits vary. */
export interface Moment {
  at: number
  random: number
}

/** `seconds` later, more or less. */
const later = ({ at, random }: Moment, seconds: number): Date => new Date(at + Math.round(seconds * (1 + JITTER * (2 * random - 1)) * 1000))

/** When a connection whose last check or login was fine is checked next; null: never. One that was never logged in is not checked. */
export const nextCheck = ({ health_checks: isChecked, health_check_seconds: seconds }: Rules, moment: Moment): Date | null =>
  isChecked ? later(moment, seconds) : null

/** After a login that succeeded, everything begins again. */
export const afterLogin = (connection: Rules, moment: Moment): { next_check_at: Date | null; checks: string } => ({
  next_check_at: nextCheck(connection, moment),
  checks: '{}',
})

/** The wait after `failures` tries in a row that failed: longer than the interval only by doubling. */
export const backoffSeconds = (failures: number): number => Math.min(MOST_SECONDS, RETRY_SECONDS * 2 ** Math.min(20, Math.max(0, failures - 1)))

/** A caller has named the credential again: it may be sent once more. */
export const withoutRefusal = ({ refused: _, ...others }: Checks): Checks => others

/** What the site has refused stays refused, whatever else is begun anew. */
const refusalOf = ({ refused }: Checks): Checks => (refused === undefined ? {} : { refused })

/** After a re-login of its own that failed: it needs a person, and is tried again later each time. `refused`: the values that the site has refused in it. */
export function afterFailure(connection: Rules, moment: Moment, refused?: string): { status: 'NEEDS_AUTH'; checks: Checks; next_check_at: Date | null } {
  const failures = (connection.checks.failures ?? 0) + 1
  return {
    status: 'NEEDS_AUTH',
    checks: { ...refusalOf(connection.checks), ...(refused !== undefined && { refused }), failures },
    next_check_at: connection.health_checks ? later(moment, Math.max(connection.health_check_seconds, backoffSeconds(failures))) : null,
  }
}

export interface AfterCheck {
  status: 'AUTHENTICATED' | 'NEEDS_AUTH'
  checks: Checks
  next_check_at: Date | null
  /** It is to be logged in again now. */
  reauth: boolean
  /** The check has told something. */
  isCheck: boolean
}

/** After a health check. A re-login that follows decides about the next check itself, so that a service that dies meanwhile does not forget the connection. */
export function afterCheck(connection: Rules, result: CheckResult, canReauth: boolean, moment: Moment): AfterCheck {
  const { failures } = connection.checks
  const kept: Checks = { ...refusalOf(connection.checks), ...(failures !== undefined && { failures }) }
  const next_check_at = nextCheck(connection, moment)
  if (result === 'AUTHENTICATED') return { status: 'AUTHENTICATED', checks: refusalOf(connection.checks), next_check_at, reauth: false, isCheck: true }
  if (result === 'NEEDS_AUTH') {
    const reauth = connection.health_checks && connection.auto_reauth && canReauth
    return { status: 'NEEDS_AUTH', checks: kept, next_check_at, reauth, isCheck: true }
  }
  const soon = (count: number) => (connection.health_checks ? later(moment, Math.min(connection.health_check_seconds, backoffSeconds(count))) : null)
  if (result === 'not_done') {
    const undone = (connection.checks.undone ?? 0) + 1
    return { status: connection.status, checks: { ...connection.checks, undone }, next_check_at: soon(undone), reauth: false, isCheck: false }
  }
  const inconclusive = (connection.checks.inconclusive ?? 0) + 1
  const isLost = inconclusive >= MOST_INCONCLUSIVE
  return {
    status: isLost ? 'NEEDS_AUTH' : connection.status,
    checks: { ...kept, inconclusive },
    next_check_at: isLost ? next_check_at : soon(inconclusive),
    reauth: false,
    isCheck: false,
  }
}

/** After a caller has changed whether or how often a connection is checked: at once when the new interval is over already. */
export function rescheduled(connection: Rules & Pick<ConnectionRow, 'checked_at'>, moment: Moment): Date | null {
  if (connection.checked_at === null) return null
  const next = nextCheck(connection, { ...moment, at: connection.checked_at.getTime() })
  return next && new Date(Math.max(next.getTime(), moment.at))
}
