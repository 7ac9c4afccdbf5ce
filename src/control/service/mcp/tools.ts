// All tools, in the order in which hosts list them.
import type { McpToolset } from '../../../base/mcp-toolsets.ts'
import type { Tool } from './tool.ts'
import { manageApps } from './tools/apps.ts'
import { manageAuthConnections } from './tools/auth-connections.ts'
import { manageBrowserPools, manageBrowsers } from './tools/browsers.ts'
import { computerAction } from './tools/computer.ts'
import { manageCredentialProviders, manageCredentials } from './tools/credentials.ts'
import { searchDocsTool, type SearchDocs } from './tools/docs.ts'
import { browserCurl, execCommand, executePlaywrightCode } from './tools/inside.ts'
import { getConnectionContext, manageApiKeys, manageProjects } from './tools/organization.ts'
import { manageExtensions, manageProfiles, manageProxies, manageReplays } from './tools/profiles.ts'

/** The tools of the families that are not hidden. The tool that describes the connection is always listed. */
export function toolsFor(searchDocs: SearchDocs, hidden: readonly McpToolset[]): Map<string, Tool> {
  const all = [
    manageBrowsers,
    computerAction,
    executePlaywrightCode,
    execCommand,
    browserCurl,
    manageReplays,
    manageProfiles,
    manageBrowserPools,
    manageProxies,
    manageExtensions,
    manageApps,
    manageAuthConnections,
    manageCredentials,
    manageCredentialProviders,
    manageProjects,
    manageApiKeys,
    searchDocsTool(searchDocs),
    getConnectionContext,
  ]
  return new Map(all.filter(({ toolset }) => toolset === undefined || !hidden.includes(toolset)).map((one) => [one.name, one]))
}
