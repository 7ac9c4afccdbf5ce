// Reads one setting from the environment, and words the errors of invalid ones.

/** A setting with an invalid value; the message names it. */
export class ConfigError extends Error {
  constructor(name: string, problem: string) {
    super(`${name}: ${problem}`)
    this.name = 'ConfigError'
  }
}

export function integer(env: NodeJS.ProcessEnv, name: string, fallback: number, min: number, max: number): number {
  const text = env[name]
  if (text === undefined || text === '') return fallback
  const value = Number(text)
  if (!/^\d+$/.test(text) || value < min || value > max) throw new ConfigError(name, `must be a whole number from ${min} to ${max}, not "${text}"`)
  return value
}

export function oneOf<T extends string>(env: NodeJS.ProcessEnv, name: string, fallback: T, values: readonly T[]): T {
  const text = env[name] || fallback
  const found = values.find((value) => value === text)
  if (found === undefined) throw new ConfigError(name, `must be one of ${values.join(', ')}, not "${text}"`)
  return found
}

export const flag = (env: NodeJS.ProcessEnv, name: string, fallback: '0' | '1' = '0'): boolean => oneOf(env, name, fallback, ['0', '1']) === '1'

export function origin(env: NodeJS.ProcessEnv, name: string): string | undefined {
  const text = env[name]
  if (!text) return undefined
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.pathname !== '/' || url.search || url.hash)
    throw new ConfigError(name, 'must be an http or https origin (scheme, host and port), without a path, user or password')
  return url.origin
}

export function address(env: NodeJS.ProcessEnv, name: string): string | undefined {
  const text = env[name]
  if (!text) return undefined
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.hash)
    throw new ConfigError(name, 'must be an http or https address, without a user, password or fragment')
  return url.href
}

export function needed(env: NodeJS.ProcessEnv, name: string, why: string): string {
  const value = env[name]
  if (!value) throw new ConfigError(name, `must be set too, because ${why}`)
  // A copied line feed would make every request fail with an error about its signature.
  if (/[^\x21-\x7e]/.test(value)) throw new ConfigError(name, 'must not hold spaces or line feeds')
  return value
}
