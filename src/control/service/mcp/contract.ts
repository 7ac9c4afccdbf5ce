// The one route of MCP (streamable HTTP). What is said by it is JSON-RPC, so it is not part of the API's document.
import { z } from 'zod'
import { byteStream, bytes, route } from '../../../http/route.ts'

/** A message may have a text for the clipboard, or policies of Chrome. */
const MAX_MESSAGE_BYTES = 8 * 1024 * 1024

export const mcp = {
  mcp: route({
    method: 'POST',
    path: '/mcp',
    id: 'mcp',
    group: 'MCP',
    summary: 'Send a message to the MCP server',
    query: z.looseObject({}),
    body: byteStream,
    bodyKind: 'bytes',
    maxBodyBytes: MAX_MESSAGE_BYTES,
    // What a message does is written down by the calls that it makes.
    reads: true,
    // Calls of tools have limits of their own.
    deadlineMs: Infinity,
    reply: bytes('text/event-stream'),
  }),
}
