// The MCP server over fake browsers, as two clients that nobody here wrote see it: the official SDK's of both generations.
import { Client as NewClient, StreamableHTTPClientTransport as NewTransport } from '@modelcontextprotocol/client'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startFastCloud, type FastCloud } from '../../../test/support/fast-cloud.ts'

let cloud: FastCloud
beforeAll(async () => {
  cloud = await startFastCloud()
})
afterAll(() => cloud[Symbol.asyncDispose]())

test('spike', async () => {
  const address = new URL('/mcp', cloud.url)
  const requestInit = { headers: { authorization: `Bearer ${cloud.key}` } }
  const info = { name: 'test', version: '1' }
  for (const mode of ['new', 'old'] as const) {
    const client = mode === 'new' ? new NewClient(info, { versionNegotiation: { mode: 'auto' } } as never) : new OldClient(info)
    await client.connect((mode === 'new' ? new NewTransport(address, { requestInit }) : new OldTransport(address, { requestInit })) as never)
    const { tools } = await client.listTools()
    console.log(mode, tools.length, JSON.stringify(tools).length, (client as NewClient).getNegotiatedProtocolVersion?.())
    const made = await client.callTool({ name: 'manage_browsers', arguments: { action: 'create', tags: { a: 'b' } } })
    console.log(JSON.stringify(made).slice(0, 1500))
    const shot = await client.callTool({ name: 'computer_action', arguments: { session_id: 'nope', actions: [{ type: 'screenshot' }] } })
    console.log(JSON.stringify(shot))
    console.log(JSON.stringify(await client.callTool({ name: 'manage_browsers', arguments: { action: 'get', start_url: 'x' } })))
    console.log(JSON.stringify(await client.callTool({ name: 'search_docs', arguments: { query: 'live view' } })).slice(0, 800))
    console.log(JSON.stringify(await client.callTool({ name: 'get_connection_context', arguments: {} })).slice(0, 800))
    console.log(JSON.stringify(await client.listResourceTemplates()).slice(0, 300))
    console.log(JSON.stringify(await client.readResource({ uri: 'kernel://orgs/defaultorganization00000/projects/Default/browsers' })).slice(0, 300))
    await client.close()
  }
  expect(1).toBe(1)
})
