// Resources: what a project has, as JSON, by addresses that name the organization and the project.
import type { McpToolset } from '../../../base/mcp-toolsets.ts'
import type { Page } from '../../../http/route.ts'
import { ORGANIZATION } from '../../access/account/contract.ts'
import { apps } from '../../apps/apps/contract.ts'
import { browserPools } from '../../sessions/browser-pools/contract.ts'
import { browsers } from '../../sessions/browsers/contract.ts'
import { profiles } from '../../sessions/profiles/contract.ts'
import type { Api } from './api.ts'
import { boundedJson } from './results.ts'
import { itemsOf } from './tool.ts'
import { briefly } from './tools/browsers.ts'

/** Objects of one collection: as many as the API gives with one page. Beyond it the list says how to go on. */
const PAGE = 100
const query = { limit: PAGE }

interface Kind {
  toolset: McpToolset
  title: string
  list: (api: Api) => Promise<Page<object>>
  get: (api: Api, called: string) => Promise<object | undefined>
}

/** By the last part of the address. */
const KINDS: Record<string, Kind> = {
  browsers: {
    toolset: 'browsers',
    title: 'Browser sessions',
    list: async (api) => briefly(await api.call(browsers.listBrowsers, { query })),
    get: (api, id_or_name) => api.call(browsers.getBrowser, { params: { id_or_name }, query: {} }),
  },
  'browser-pools': {
    toolset: 'browser_pools',
    title: 'Pools of browsers',
    list: (api) => api.call(browserPools.listBrowserPools, { query }),
    get: (api, id_or_name) => api.call(browserPools.getBrowserPool, { params: { id_or_name } }),
  },
  profiles: {
    toolset: 'profiles',
    title: 'Browser profiles',
    list: (api) => api.call(profiles.listProfiles, { query }),
    get: (api, id_or_name) => api.call(profiles.getProfile, { params: { id_or_name } }),
  },
  apps: {
    toolset: 'apps',
    title: 'Deployed apps',
    list: (api) => api.call(apps.listApps, { query }),
    get: async (api, called) => {
      const { items } = await api.call(apps.listApps, { query: { ...query, query: called } })
      return items.find(({ id, app_name }) => id === called || app_name === called)
    },
  },
}

export interface Resources {
  templates: { uriTemplate: string; name: string; title: string; description: string; mimeType: string }[]
  /** The content at an address; undefined when there is nothing. @throws as the API does */
  read(uri: string, api: Api): Promise<{ uri: string; mimeType: string; text: string } | undefined>
}

const MIME = 'application/json'
const PREFIX = 'kernel://orgs/{organization}/projects/{project}'

export function resourcesFor(hidden: readonly McpToolset[]): Resources {
  const kinds = Object.entries(KINDS).filter(([, { toolset }]) => !hidden.includes(toolset))
  return {
    templates: kinds.flatMap(([name, { title }]) => [
      { uriTemplate: `${PREFIX}/${name}`, name, title, description: `${title} of a project: the ${PAGE} newest.`, mimeType: MIME },
      { uriTemplate: `${PREFIX}/${name}/{id}`, name: `${name}-one`, title: `${title}: one`, description: 'One of them, by its id or name.', mimeType: MIME },
    ]),
    async read(uri, api) {
      const [, organization, project, name, called] = /^kernel:\/\/orgs\/([^/?#]+)\/projects\/([^/?#]+)\/([a-z-]+)(?:\/([^/?#]+))?$/.exec(uri) ?? []
      const [, kind] = kinds.find(([one]) => one === name) ?? []
      if (!kind || organization !== ORGANIZATION) return undefined
      const [of, one] = [project!, called].map((part) => (part === undefined ? undefined : decoded(part)))
      if (of === undefined || (called !== undefined && one === undefined)) return undefined
      const inProject = api.forProject(of)
      const value = one === undefined ? itemsOf(await kind.list(inProject)) : await kind.get(inProject, one)
      return value && { uri, mimeType: MIME, text: boundedJson(value) }
    },
  }
}

function decoded(part: string): string | undefined {
  try {
    return decodeURIComponent(part)
  } catch {
    return undefined
  }
}
