// Parses the loader's reports about the app: JSON lines on their own pipe. The app's code can write there too, so nothing is trusted.
import type { AppsFound } from './contract.ts'
import { MAX_NAME, MAX_NAMES, MAX_OUTPUT_BYTES, MAX_REASON } from './limits.ts'

export type Report =
  | { type: 'loaded'; apps: AppsFound; registries?: { path: string; cjs: boolean }[] }
  | { type: 'failed'; reason: string }
  | { type: 'result'; ok: boolean; output: string | null; reason: string | null }
  /** Sent after the result: the code has ended, including its exit handlers. Only the end of the process is left. */
  | { type: 'done' }
  /** Sent by the shell that started the loader, after the loader has ended. */
  | { type: 'exit'; code: number }

/** The largest output as a JSON string, where a byte may take six, plus the other fields. */
export const MAX_REPORT = 6 * MAX_OUTPUT_BYTES + 256 * 1024

/** Parses a line; undefined when it is not a valid report. */
export function parseReport(line: string): Report | undefined {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    return undefined
  }
  if (!isObject(value)) return undefined
  switch (value.type) {
    case 'exit':
      return typeof value.code === 'number' ? { type: 'exit', code: value.code } : undefined
    case 'done':
      return { type: 'done' }
    case 'failed':
      return { type: 'failed', reason: reasonOf(value.reason) }
    case 'result':
      return resultOf(value)
    case 'loaded':
      return loadedOf(value)
    default:
      return undefined
  }
}

function resultOf({ ok, output, reason }: Record<string, unknown>): Report {
  if (ok !== true) {
    const words = reasonOf(reason)
    return { type: 'result', ok: false, output: JSON.stringify({ error: words }), reason: words }
  }
  if (output === null) return { type: 'result', ok: true, output, reason: null }
  if (typeof output !== 'string' || !isJson(output)) return failedRun('what the action returned is not JSON')
  const bytes = Buffer.byteLength(output)
  return bytes > MAX_OUTPUT_BYTES
    ? failedRun(`the action returned ${bytes} bytes of JSON; ${MAX_OUTPUT_BYTES} are allowed`)
    : { type: 'result', ok: true, output, reason: null }
}

export function failedRun(reason: string): Report & { type: 'result' } {
  return { type: 'result', ok: false, output: JSON.stringify({ error: reason }), reason }
}

function loadedOf({ apps, registries }: Record<string, unknown>): Report | undefined {
  if (!Array.isArray(apps)) return { type: 'loaded', apps: [] }
  const found: AppsFound = []
  let names = 0
  for (const app of apps as unknown[]) {
    if (!isObject(app) || !isName(app.name) || !Array.isArray(app.actions)) return tooOdd
    const actions = (app.actions as unknown[]).map((action) => (isObject(action) ? action.name : undefined))
    if (!actions.every(isName)) return tooOdd
    names += 1 + actions.length
    found.push({ name: app.name, actions: actions.map((name) => ({ name })) })
  }
  if (names > MAX_NAMES) return { type: 'failed', reason: `the app has more than ${MAX_NAMES} actions` }
  const modules = Array.isArray(registries) ? (registries as unknown[]).filter(isRegistry) : undefined
  return { type: 'loaded', apps: found, registries: modules }
}

const tooOdd: Report = { type: 'failed', reason: `names of apps and actions are texts of 1 to ${MAX_NAME} characters` }

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
const isName = (value: unknown): value is string => typeof value === 'string' && value !== '' && value.length <= MAX_NAME && !value.includes('\0')
const isRegistry = (value: unknown): value is { path: string; cjs: boolean } =>
  isObject(value) && typeof value.path === 'string' && value.path.startsWith('/') && typeof value.cjs === 'boolean'

function reasonOf(reason: unknown): string {
  const words = typeof reason === 'string' && reason.trim() !== '' ? reason : 'it failed without a message'
  return words.length > MAX_REASON ? `${words.slice(0, MAX_REASON)}…` : words
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
