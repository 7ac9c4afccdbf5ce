// What to say about an error: the service's own words, and what the reader can do.
import { ApiError } from '../api/client.ts'

const ADVICE: Record<string, string> = {
  unreachable: 'Check that it runs and that this machine reaches it; this page tries again by itself.',
  timeout: 'It may be busy. Try again.',
  forbidden: 'Your role does not allow this. An owner of the project can change that.',
  not_found: 'It may have ended or been deleted, or it belongs to another project.',
  too_many_requests: 'A limit is reached. End something, or ask an owner to raise the limit.',
  unavailable: 'Try again in a moment.',
  internal_error: 'The log of the service has the cause.',
}

/** In one text. */
export function adviceOn(error: unknown): string {
  if (!(error instanceof ApiError)) return error instanceof Error ? error.message : String(error)
  const sentence = /[.!?]$/.test(error.message) ? error.message : `${error.message}.`
  const advice = ADVICE[error.code]
  const id = error.status >= 500 && error.requestId ? ` Request id: ${error.requestId}.` : ''
  return `${sentence.slice(0, 1).toUpperCase()}${sentence.slice(1)}${advice ? ` ${advice}` : ''}${id}`
}
