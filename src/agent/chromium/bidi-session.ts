// WebDriver's session.new: which capabilities a client may ask for, and what the answer says about the browser. The mapper leaves both to its host.
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
  error: 'session not created'
  message: string
}

/** The session.new of one connection. */
export interface NewSession {
  /** Looks at a command before the mapper does; narrows the capabilities of session.new to those that match. */
  asked(command: Command): Refusal | undefined
  /** The answer as it is sent to the client. */
  answered(message: object): object
}

export function makeNewSession({ product }: BrowserVersion): NewSession {
  const browserVersion = product.split('/')[1] ?? product
  const sessionId = randomUUID()
  let awaited: number | undefined
  let created = false

  return {
    asked(command) {
      if (command.method !== 'session.new') return undefined
      if (created || awaited !== undefined) return { error: 'session not created', message: 'this connection has a session already' }
      const candidates = candidatesOf(command.params.capabilities)
      if (candidates) {
        const reasons = candidates.map((candidate) => mismatch(candidate, browserVersion))
        const match = reasons.indexOf(undefined)
        if (match < 0) return { error: 'session not created', message: `no capabilities match this browser: ${reasons.join('; ')}` }
        command.params.capabilities = { alwaysMatch: candidates[match] }
      }
      awaited = command.id
      return undefined
    },
    answered(message) {
      const { id, type, result } = message as { id?: number; type?: string; result?: { capabilities: Record<string, unknown> } }
      if (id === undefined || id !== awaited) return message
      awaited = undefined
      if (type !== 'success' || !result) return message
      created = true
      // No URL of its own: this connection is the session's only one.
      const { webSocketUrl: _, ...capabilities } = result.capabilities
      const known = { browserName: 'chrome', browserVersion, platformName: PLATFORM, setWindowRect: true }
      return { ...message, result: { ...result, sessionId, capabilities: { ...capabilities, ...known } } }
    },
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
