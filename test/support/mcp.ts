// Two MCP clients with one interface: the present and the previous generation of the official SDK.
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
  /** Calls a tool whose answer is JSON. @throws when the answer is an error */
  json<T = Record<string, any>>(name: string, given: object): Promise<T>
  /** Calls a tool whose answer must be an error, and returns its text. */
  refused(name: string, given: object): Promise<string>
  client: Client
}

/** Connects with a key. With the key '', it uses a credential in `headers`, which every request carries. */
export async function connectMcp(url: string, key: string, generation: Generation = 'this', headers: Record<string, string> = {}): Promise<McpClient> {
  const info = { name: 'test', version: '1' }
  const address = new URL('/mcp', url)
  const options = { requestInit: { headers: { ...(key !== '' && { authorization: `Bearer ${key}` }), ...headers } } }
  // Both clients make the same calls. The present one uses the protocol revision of 2026-07-28, the previous one that of 2025-11-25.
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
