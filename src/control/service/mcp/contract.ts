// The one route of MCP (streamable HTTP). Its messages are JSON-RPC, so they are not part of the API's document.
import * as z from 'zod'
import { byteStream, bytes, route } from '../../../http/route.ts'

/** A message may contain a text for the clipboard, or policies of Chrome. */
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
    // The calls that a message makes are in the audit log, so the message itself is not.
    reads: true,
    // Calls of tools have their own limits.
    deadlineMs: Infinity,
    reply: bytes('text/event-stream'),
  }),
}
