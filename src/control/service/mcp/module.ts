// The MCP server: the API as tools for agents.
import { defineModule } from '../../module.ts'
import { search } from '../system/docs-search.ts'
import { mountMcp } from './mount.ts'

export const mcp = defineModule({
  name: 'mcp',
  open: ({ config, serve }) => serve((context) => mountMcp(context, { searchDocs: search, hidden: config.mcpDisabledToolsets, publicUrl: config.publicUrl })),
})
