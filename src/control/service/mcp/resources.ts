// Resources: the objects of a project as JSON, at addresses that name the organization and the project.
import { toolsetOf, type McpToolset } from '../../../base/mcp-toolsets.ts'
import type { Callable, Input } from '../../../http/client.ts'
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

/** Objects of one collection: as many as one page of the API. The list says how to get more. */
const PAGE = 100

/** Kinds by the last part of the address. If a kind has no call for a single object, the object is searched in its list. */
const KINDS: Record<string, { title: string; list: Callable; get?: Callable }> = {
  browsers: { title: 'Browser sessions', list: browsers.listBrowsers, get: browsers.getBrowser },
  'browser-pools': { title: 'Pools of browsers', list: browserPools.listBrowserPools, get: browserPools.getBrowserPool },
  profiles: { title: 'Browser profiles', list: profiles.listProfiles, get: profiles.getProfile },
  apps: { title: 'Deployed apps', list: apps.listApps },
}

export interface Resources {
  templates: { uriTemplate: string; name: string; title: string; description: string; mimeType: string }[]
  /** The content at an address; undefined when there is none. @throws errors of the API */
  read(uri: string, api: Api): Promise<{ uri: string; mimeType: string; text: string } | undefined>
}

interface Named {
  id?: string
  app_name?: string
}

const MIME = 'application/json'
const PREFIX = 'kernel://orgs/{organization}/projects/{project}'

export function resourcesFor(hidden: readonly McpToolset[]): Resources {
  const kinds = Object.entries(KINDS).filter(([name]) => !hidden.includes(toolsetOf(name)!))
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
      const list = async (query: object) => (await inProject.call(kind.list, { query: { limit: PAGE, ...query } } as Input<Callable>)) as unknown as Page<Named>
      const value =
        one === undefined
          ? itemsOf(briefly(await list({})))
          : kind.get
            ? await inProject.call(kind.get, { params: { id_or_name: one } } as Input<Callable>)
            : (await list({ query: one })).items.find(({ id, app_name }) => id === one || app_name === one)
      return value === undefined ? undefined : { uri, mimeType: MIME, text: boundedJson(value) }
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
