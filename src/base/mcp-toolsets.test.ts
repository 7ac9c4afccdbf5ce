// How the setting names families of tools.
import { expect, test } from 'vitest'
import { MCP_TOOLSETS, mcpToolsets } from './mcp-toolsets.ts'

const named = (text: string | undefined) => mcpToolsets({ COB_MCP_DISABLED_TOOLSETS: text }, 'COB_MCP_DISABLED_TOOLSETS')

test.each([
  [undefined, []],
  ['', []],
  ['none', []],
  ['shell', ['shell']],
  ['manage_api_keys, Credential-Providers  exec_command', ['api_keys', 'credential_providers', 'shell']],
  ['search_docs,docs', ['docs']],
  ['all', [...MCP_TOOLSETS]],
])('%s', (text, families) => expect(named(text)).toEqual(families))

test('an unknown one ends the start, with all that there are', () => {
  expect(() => named('shell,shells,keys')).toThrow(/^COB_MCP_DISABLED_TOOLSETS: must be families of tools \(browsers, .*\), not "shells, keys"$/)
  expect(() => named('toString')).toThrow(/not "toString"/)
})
