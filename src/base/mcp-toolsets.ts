// The families of MCP tools, and how a setting names them.
import { ConfigError } from './setting.ts'

/** In the order in which hosts list their tools. */
export const MCP_TOOLSETS = [
  'browsers',
  'computer',
  'playwright',
  'shell',
  'browser_curl',
  'replays',
  'profiles',
  'browser_pools',
  'proxies',
  'extensions',
  'apps',
  'auth_connections',
  'credentials',
  'credential_providers',
  'projects',
  'api_keys',
  'docs',
] as const
export type McpToolset = (typeof MCP_TOOLSETS)[number]

/** Names of single tools that select their family. So does `manage_<family>`. */
const ALIASES: Record<string, McpToolset> = {
  computer_action: 'computer',
  execute_playwright_code: 'playwright',
  exec_command: 'shell',
  search_docs: 'docs',
  browser_utilities: 'browser_curl',
}

/** The families that a setting names, with commas or spaces between them; `all` selects all, `none` none. @throws ConfigError */
export function mcpToolsets(env: NodeJS.ProcessEnv, name: string): McpToolset[] {
  const words = (env[name] ?? '').split(/[,\s]+/).filter((word) => word !== '' && word.toLowerCase() !== 'none')
  const found = words.map(familyOf)
  const unknown = words.filter((_, at) => found[at] === undefined)
  if (unknown.length > 0) throw new ConfigError(name, `must be families of tools (${MCP_TOOLSETS.join(', ')}, all), not "${unknown.join(', ')}"`)
  return [...new Set(found.flatMap((some) => some ?? []))]
}

/** The family of a tool. */
export const toolsetOf = (tool: string): McpToolset | undefined => familyOf(tool)?.[0]

function familyOf(word: string): readonly McpToolset[] | undefined {
  const name = word
    .toLowerCase()
    .replaceAll('-', '_')
    .replace(/^manage_/, '')
  if (name === 'all') return MCP_TOOLSETS
  const family = MCP_TOOLSETS.find((toolset) => toolset === name) ?? ALIASES[name]
  return family && [family]
}
