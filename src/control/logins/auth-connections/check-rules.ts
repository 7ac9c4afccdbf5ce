// The time of a connection's next check, and the effects of a check's result. Needs no clock and no database.
import type { ErrorCode } from './contract.ts'
import type { FlowState } from './lifecycle.ts'
import type { Checks, ConnectionRow } from './rows.ts'

/** After this many inconclusive health checks in a row, a person has to look. */
export const MOST_INCONCLUSIVE = 3
/** The delay after a check that was inconclusive or not done, and after a first failed re-login; each further failure doubles it. */
const RETRY_SECONDS = 60
/** The longest delay between two attempts: the largest interval of checks. */
const MOST_SECONDS = 86_400
/** Connections that were created together should not always be checked together: each check is up to a tenth of the interval earlier or later. */
const JITTER = 0.1

/** `inconclusive`: the site gave no answer. `not_done`: the service itself could not ask the site. */
export type CheckResult = 'AUTHENTICATED' | 'NEEDS_AUTH' | 'inconclusive' | 'not_done'

/** Errors of a check that the site causes. No seat for a browser, no time, a failed service, and our own bugs tell nothing about a connection. */
const BY_SITE: readonly ErrorCode[] = ['website_error', 'bot_detected', 'captcha_blocked']

/** The result of a check by the end of its flow. */
export function resultOf({ state, errorCode }: { state: FlowState; errorCode?: ErrorCode }): CheckResult {
  if (state === 'AUTHENTICATED' || state === 'NEEDS_AUTH') return state
  return errorCode !== undefined && BY_SITE.includes(errorCode) ? 'inconclusive' : 'not_done'
}

type Rules = Pick<ConnectionRow, 'health_checks' | 'health_check_seconds' | 'auto_reauth' | 'status' | 'checks'>

/** The time, and a random number from 0 to 1 by which delays vary. */
export interface Moment {
  at: number
  random: number
}

/** A time about `seconds` later. */
const later = ({ at, random }: Moment, seconds: number): Date => new Date(at + Math.round(seconds * (1 + JITTER * (2 * random - 1)) * 1000))

/** The next check of a connection whose last check or login succeeded; null: never. A connection that was never logged in is not checked. */
export const nextCheck = ({ health_checks: isChecked, health_check_seconds: seconds }: Rules, moment: Moment): Date | null =>
  isChecked ? later(moment, seconds) : null

/** The columns after a successful login: all counts are reset. */
export const afterLogin = (connection: Rules, moment: Moment): { next_check_at: Date | null; checks: string } => ({
  next_check_at: nextCheck(connection, moment),
  checks: '{}',
})

/** The delay after `failures` failed attempts in a row: it exceeds the interval only by doubling. */
export const backoffSeconds = (failures: number): number => Math.min(MOST_SECONDS, RETRY_SECONDS * 2 ** Math.min(20, Math.max(0, failures - 1)))

/** After a caller has named the credential again, it may be sent once more. */
export const withoutRefusal = ({ refused: _, ...others }: Checks): Checks => others

/** The refused version stays when other counts are reset. */
const refusalOf = ({ refused }: Checks): Checks => (refused === undefined ? {} : { refused })

/**
 * The columns after a failed re-login by the service itself: it needs a person, and the next attempt comes later each time. `refused`: the version of the
 * values that the site has refused.
 */
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
  /** Whether a re-login should start now. */
  reauth: boolean
  /** Whether the check had a result. */
  isCheck: boolean
}

/**
 * The columns after a health check. If a re-login follows, it sets the next check itself. Until then a time is set here, so that the connection is not
 * forgotten if the service dies meanwhile.
 */
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

/** The columns after a caller has changed whether or how often a connection is checked: the check is at once when the new interval is over already. */
export function rescheduled(connection: Rules & Pick<ConnectionRow, 'checked_at'>, moment: Moment): Date | null {
  if (connection.checked_at === null) return null
  const next = nextCheck(connection, { ...moment, at: connection.checked_at.getTime() })
  return next && new Date(Math.max(next.getTime(), moment.at))
}
