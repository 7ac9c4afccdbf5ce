// The text about an error: the service's own words, and what the reader can do.
import { ApiError } from '../api/client.ts'

const ADVICE: Record<string, string> = {
  unreachable: 'Check that it runs and that this machine reaches it.',
  timeout: 'It may be busy.',
  forbidden: 'Your role does not allow this. An owner of the project can change that.',
  not_found: 'It may have ended or been deleted, or it belongs to another project.',
  too_many_requests: 'A limit is reached. End something, or ask an owner to raise the limit.',
  internal_error: 'The log of the service has the cause.',
}

/** Errors that may pass by themselves, so that a retry may work. */
const PASSES = new Set(['unreachable', 'timeout', 'unavailable'])

/** The error and the advice in one text. `again` means that the page retries by itself. */
export function adviceOn(error: unknown, again?: 'again'): string {
  if (!(error instanceof ApiError)) return error instanceof Error ? error.message : String(error)
  const sentence = /[.!?]$/.test(error.message) ? error.message : `${error.message}.`
  const passes = PASSES.has(error.code) || (again && error.status >= 500)
  const next = passes && (again ? 'This page tries again by itself.' : 'Try again in a moment.')
  const advice = [ADVICE[error.code], next].filter(Boolean).join(' ')
  const id = error.status >= 500 && error.requestId ? ` Request id: ${error.requestId}.` : ''
  return `${sentence.slice(0, 1).toUpperCase()}${sentence.slice(1)}${advice ? ` ${advice}` : ''}${id}`
}
