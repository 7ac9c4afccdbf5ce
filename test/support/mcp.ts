// Two MCP clients that nobody here wrote, with one face: the official SDK of this generation and of the one before.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { Client as EarlierClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as EarlierTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

export const GENERATIONS = ['this', 'the one before'] as const
export type Generation = (typeof GENERATIONS)[number]

type Listed = { name: string; description?: string; inputSchema: { properties?: Record<string, { description?: string }>; required?: string[] } }
export type Said = { isError?: boolean; content: { type: string; text?: string; data?: string; mimeType?: string }[]; structuredContent?: unknown }

export interface McpClient extends AsyncDisposable {
  tools(): Promise<Listed[]>
  call(name: string, given: object, signal?: AbortSignal): Promise<Said>
  /** Calls a tool that answers JSON. @throws when it answers an error */
  json<T = Record<string, any>>(name: string, given: object): Promise<T>
  /** Calls a tool that has to answer an error, and returns its text. */
  refused(name: string, given: object): Promise<string>
  client: Client
}

/** Connects with a key, or without ('') by a credential of `headers`, which are sent with every request. */
export async function connectMcp(url: string, key: string, generation: Generation = 'this', headers: Record<string, string> = {}): Promise<McpClient> {
  const info = { name: 'test', version: '1' }
  const address = new URL('/mcp', url)
  const options = { requestInit: { headers: { ...(key !== '' && { authorization: `Bearer ${key}` }), ...headers } } }
  // By the same calls: this one speaks the revision of 2026-07-28, the earlier one that of 2025-11-25.
  const client = generation === 'this' ? new Client(info, { versionNegotiation: { mode: 'auto' } }) : (new EarlierClient(info) as unknown as Client)
  await client.connect(
    generation === 'this'
      ? new StreamableHTTPClientTransport(address, options)
      : (new EarlierTransport(address, options) as unknown as StreamableHTTPClientTransport),
  )
  const call = async (name: string, given: object, signal?: AbortSignal): Promise<Said> => {
    const params = { name, arguments: given as Record<string, unknown> }
    const earlier = client as unknown as { callTool(params: object, schema: undefined, options: object): Promise<unknown> }
    return (await (generation === 'this'
      ? client.callTool(params, { ...(signal && { signal }) })
      : earlier.callTool(params, undefined, { ...(signal && { signal }) }))) as Said
  }
  const textOf = ({ content }: Said) => content.at(-1)?.text ?? ''
  return {
    client,
    call,
    tools: async () => (await client.listTools()).tools as Listed[],
    async json<T>(name: string, given: object) {
      const said = await call(name, given)
      if (said.isError) throw new Error(textOf(said))
      return JSON.parse(textOf(said)) as T
    },
    async refused(name, given) {
      const said = await call(name, given)
      if (!said.isError) throw new Error(`${name} was not refused: ${textOf(said).slice(0, 1000)}`)
      return textOf(said)
    },
    [Symbol.asyncDispose]: () => client.close(),
  }
}
