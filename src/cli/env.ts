// `cob env`: the settings with which official clients use this service.
import { existsSync, readFileSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import type { Config } from '../base/config.ts'
import { ConfigError } from '../base/setting.ts'

type Shell = 'sh' | 'fish'

export interface EnvOptions {
  shell?: Shell
  json?: boolean
  showKey?: boolean
  project?: string
}

/** The place of the key of these settings. */
type KeySource = { value: string } & ({ file: string } | { variable: string })

/** Prints the settings. On a terminal they name the place of the key, because others may see the screen; in a pipe or a file they contain the key itself. */
export function printEnv(config: Config, { shell = defaultShell(), json = false, showKey = false, project }: EnvOptions): void {
  const url = urlOf(config)
  const key = keyOf(config)
  const isShown = showKey || !process.stdout.isTTY
  const rest = { KERNEL_BASE_URL: url, KERNEL_AUTH_BASE_URL: url, ...(project !== undefined && { KERNEL_PROJECT: project }) }
  if (json) {
    const shown = isShown ? key.value : `${key.value.slice(0, 8)}…`
    process.stdout.write(`${JSON.stringify({ ...rest, KERNEL_API_KEY: shown }, undefined, 2)}\n`)
  } else {
    const lines = Object.entries(rest).map(([name, value]) => line(shell, name, quoted(shell, value)))
    lines.push(line(shell, 'KERNEL_API_KEY', isShown ? quoted(shell, key.value) : reading(shell, key)))
    process.stdout.write(`${lines.join('\n')}\n`)
  }
  if (process.stdout.isTTY && !json)
    process.stderr.write(`\n# To set them here:  ${shell === 'fish' ? 'cob env --shell fish | source' : 'eval "$(cob env)"'}\n`)
}

const defaultShell = (): Shell => (basename(process.env.SHELL ?? '') === 'fish' ? 'fish' : 'sh')

const line = (shell: Shell, name: string, value: string): string => (shell === 'fish' ? `set -gx ${name} ${value}` : `export ${name}=${value}`)

/** One word of the shell, whatever it contains. */
const quoted = (shell: Shell, text: string): string =>
  shell === 'fish' ? `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'` : `'${text.replaceAll("'", `'\\''`)}'`

function reading(shell: Shell, key: KeySource): string {
  if ('variable' in key) return `"$${key.variable}"`
  return shell === 'fish' ? `(cat ${quoted(shell, key.file)})` : `"$(cat ${quoted(shell, key.file)})"`
}

/** The host by which a program on this machine reaches the service. */
export const reachedHost = ({ host }: Pick<Config, 'host'>): string => (host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host)

/** @throws ConfigError when the settings do not say it */
function urlOf(config: Config): string {
  const { publicUrl, port } = config
  if (publicUrl !== undefined) return publicUrl
  if (port === 0) throw new ConfigError('COB_PORT', 'is 0, so the port is known to the running service only: set it, or COB_PUBLIC_URL')
  const host = reachedHost(config)
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`
}

/** @throws when there is no key yet */
export function keyOf({ apiKey, dataDir }: Config): KeySource {
  if (apiKey !== undefined) return { value: apiKey, variable: 'COB_API_KEY' }
  const file = join(resolve(dataDir), 'api-key')
  if (!existsSync(file)) throw new Error(`${file} is not there: start the service once, which makes the first key, or set COB_API_KEY as the service has it`)
  return { value: readFileSync(file, 'utf8').trim(), file }
}
