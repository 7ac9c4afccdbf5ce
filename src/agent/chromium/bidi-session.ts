// Work that the mapper leaves to its host: the form of a command, and the BiDi session of a connection. That includes the commands before session.new, the
// capabilities that a client may request, and the answer of session.new about the browser.
import { randomUUID } from 'node:crypto'

/** A BiDi command. */
export interface Command {
  id: number
  method: string
  params: Record<string, unknown>
}

/** Chromium's answer to Browser.getVersion. */
export interface BrowserVersion {
  /** `Chrome/156.0.8078.79` */
  product: string
}

interface Capabilities {
  browserName?: unknown
  browserVersion?: unknown
  platformName?: unknown
  proxy?: unknown
}

const PLATFORM = 'linux'
const NAMES = ['chrome', 'chromium']

/** An error answer without its id. */
export interface Refusal {
  error: 'invalid argument' | 'invalid session id' | 'session not created'
  message: string
}

/** An answer without its id. */
export type Reply = ({ type: 'error' } & Refusal) | { type: 'success'; result: object }

/**
 * Reads a command. A refusal carries the command's id, because a client waits for exactly this id. The specification requires this whenever the message is an
 * object with a valid id; otherwise the id is null.
 */
export function readCommand(text: string): { id: number; command: Command } | { id: number | null; refusal: Refusal } {
  let said: unknown
  try {
    said = JSON.parse(text)
  } catch {
    return refusal(null, 'the message is not JSON')
  }
  if (!isObject(said)) return refusal(null, `a command is an object with id, method and params, this is ${kindOf(said)}`)
  const { id, method, params, 'goog:channel': channel } = said
  if (!isId(id)) return refusal(null, `id must be an integer from 0 to ${Number.MAX_SAFE_INTEGER}; it is ${kindOf(id)}`)
  if (typeof method !== 'string') return refusal(id, `method must be a string; it is ${kindOf(method)}`)
  if (!isObject(params)) return refusal(id, `params must be an object; it is ${kindOf(params)}`)
  if (channel !== undefined && typeof channel !== 'string') return refusal(id, `goog:channel must be a string; it is ${kindOf(channel)}`)
  return { id, command: said as unknown as Command }
}

const refusal = (id: number | null, message: string) => ({ id, refusal: { error: 'invalid argument' as const, message } })

/** js-uint of the specification. */
const isId = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0

const kindOf = (value: unknown): string => {
  if (value === undefined) return 'missing'
  if (value === null || typeof value === 'number' || typeof value === 'boolean') return String(value)
  return Array.isArray(value) ? 'a list' : typeof value === 'object' ? 'an object' : `a ${typeof value}`
}

/** The BiDi session of one connection. */
export interface BidiSession {
  /** Looks at a command before the mapper does: an answer, or undefined when the mapper answers. Narrows the capabilities of session.new to those that match. */
  asked(command: Command): Reply | undefined
  /** The mapper's answer as it is sent to the client. */
  answered(message: object): object
  hasEnded(): boolean
}

export function openSession({ product }: BrowserVersion): BidiSession {
  const browserVersion = product.split('/')[1] ?? product
  const sessionId = randomUUID()
  let awaited: number | undefined
  let state: 'none' | 'created' | 'ended' = 'none'

  function create(command: Command): Refusal | undefined {
    if (state !== 'none' || awaited !== undefined) return { error: 'session not created', message: 'this connection has a session already' }
    const candidates = candidatesOf(command.params.capabilities)
    if (candidates) {
      const reasons = candidates.map((candidate) => mismatch(candidate, browserVersion))
      const match = reasons.indexOf(undefined)
      if (match < 0) return { error: 'session not created', message: `no capabilities match this browser: ${reasons.join('; ')}` }
      command.params.capabilities = { alwaysMatch: candidates[match] }
    }
    awaited = command.id
    return undefined
  }

  return {
    asked(command) {
      const hasSession = state === 'created' || awaited !== undefined
      switch (command.method) {
        case 'session.status':
          return { type: 'success', result: { ready: !hasSession, message: hasSession ? 'this connection has a session' : 'send session.new' } }
        case 'session.new': {
          const refused = create(command)
          return refused && { type: 'error', ...refused }
        }
      }
      if (!hasSession) return { type: 'error', error: 'invalid session id', message: 'this connection has no session yet: send session.new first' }
      if (command.method !== 'session.end') return undefined
      state = 'ended'
      return { type: 'success', result: {} }
    },
    answered(message) {
      const { id, type, result } = message as { id?: number; type?: string; result?: { capabilities: Record<string, unknown> } }
      if (id === undefined || id !== awaited) return message
      awaited = undefined
      if (type !== 'success' || !result) return message
      state = 'created'
      // Leave out a URL: this connection is the session's only one.
      const { webSocketUrl: _, ...capabilities } = result.capabilities
      const known = { browserName: 'chrome', browserVersion, platformName: PLATFORM, setWindowRect: true }
      return { ...message, result: { ...result, sessionId, capabilities: { ...capabilities, ...known } } }
    },
    hasEnded: () => state === 'ended',
  }
}

/** alwaysMatch merged with each of firstMatch; undefined when it is malformed: then the mapper answers the error. */
function candidatesOf(asked: unknown): Capabilities[] | undefined {
  if (!isObject(asked)) return undefined
  const { alwaysMatch = {}, firstMatch = [{}] } = asked
  if (!isObject(alwaysMatch) || !Array.isArray(firstMatch) || firstMatch.length === 0 || !firstMatch.every(isObject)) return undefined
  // A capability in both is an error; the mapper reports it.
  if (firstMatch.some((one) => Object.keys(one).some((key) => key in alwaysMatch))) return undefined
  return firstMatch.map((one) => ({ ...alwaysMatch, ...one }))
}

/** Why the browser does not match the request; undefined when it does. */
function mismatch({ browserName, browserVersion, platformName, proxy }: Capabilities, version: string): string | undefined {
  if (typeof browserName === 'string' && !NAMES.includes(browserName.toLowerCase())) return `browserName is "chrome", not "${browserName}"`
  if (typeof platformName === 'string' && ![PLATFORM, 'any'].includes(platformName.toLowerCase())) return `platformName is "${PLATFORM}", not "${platformName}"`
  // A channel name ("stable") cannot be compared with a version number.
  if (typeof browserVersion === 'string' && /^\d/.test(browserVersion) && !`${version}.`.startsWith(`${browserVersion}.`))
    return `browserVersion is "${version}", not "${browserVersion}"`
  if (isObject(proxy) && !['direct', 'system'].includes(String(proxy.proxyType))) return `proxy: a proxyType of "${String(proxy.proxyType)}" is not supported`
  return undefined
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value)
