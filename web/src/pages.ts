// The list of the dashboard's pages: path, name in the navigation, and chunk. A new page is one line here (web/README.md).
import type { ComponentType } from 'react'

export interface PageEntry {
  /** The path below `/dashboard/`. */
  path: string
  /** The title of the document. Pages about one thing add its name (`usePageTitle`). */
  title: string
  /** The section of the navigation. A page about one thing has none. */
  section?: (typeof SECTIONS)[number]
  load: () => Promise<{ default: ComponentType }>
}

export const SECTIONS = ['Browsers', 'Apps', 'Access', 'Service'] as const

export const PAGES: PageEntry[] = [
  { path: 'sessions', title: 'Sessions', section: 'Browsers', load: () => import('./pages/sessions/list.tsx') },
  { path: 'sessions/:id', title: 'Session', load: () => import('./pages/sessions/session.tsx') },
  { path: 'sessions/:id/:tab', title: 'Session', load: () => import('./pages/sessions/session.tsx') },
  { path: 'wall', title: 'Wall', section: 'Browsers', load: () => import('./pages/sessions/wall.tsx') },
  { path: 'playground', title: 'Playground', section: 'Browsers', load: () => import('./pages/playground/playground.tsx') },
  { path: 'pools', title: 'Pools', section: 'Browsers', load: () => import('./pages/pools/list.tsx') },
  { path: 'pools/:id', title: 'Pool', load: () => import('./pages/pools/pool.tsx') },
  { path: 'profiles', title: 'Profiles', section: 'Browsers', load: () => import('./pages/profiles/list.tsx') },
  { path: 'profiles/:id', title: 'Profile', load: () => import('./pages/profiles/profile.tsx') },
  { path: 'proxies', title: 'Proxies', section: 'Browsers', load: () => import('./pages/proxies/list.tsx') },
  { path: 'extensions', title: 'Extensions', section: 'Browsers', load: () => import('./pages/extensions/list.tsx') },
  { path: 'apps', title: 'Apps', section: 'Apps', load: () => import('./pages/apps/list.tsx') },
  { path: 'deployments', title: 'Deployments', section: 'Apps', load: () => import('./pages/apps/deployments.tsx') },
  { path: 'deployments/:id', title: 'Deployment', load: () => import('./pages/apps/deployment.tsx') },
  { path: 'invocations', title: 'Invocations', section: 'Apps', load: () => import('./pages/apps/invocations.tsx') },
  { path: 'invocations/:id', title: 'Invocation', load: () => import('./pages/apps/invocation.tsx') },
  { path: 'logins', title: 'Managed logins', section: 'Access', load: () => import('./pages/logins/list.tsx') },
  { path: 'logins/:id', title: 'Managed login', load: () => import('./pages/logins/connection.tsx') },
  { path: 'credentials', title: 'Credentials', section: 'Access', load: () => import('./pages/logins/credentials.tsx') },
  { path: 'credential-providers', title: 'Credential providers', section: 'Access', load: () => import('./pages/logins/providers.tsx') },
  { path: 'api-keys', title: 'API keys', section: 'Access', load: () => import('./pages/access/keys.tsx') },
  { path: 'programs', title: 'Allowed programs', section: 'Access', load: () => import('./pages/access/programs.tsx') },
  { path: 'members', title: 'Members', section: 'Access', load: () => import('./pages/access/members.tsx') },
  { path: 'projects', title: 'Projects and limits', section: 'Access', load: () => import('./pages/access/projects.tsx') },
  { path: 'audit-log', title: 'Audit log', section: 'Service', load: () => import('./pages/service/audit-log.tsx') },
  { path: 'exports', title: 'Exports', section: 'Service', load: () => import('./pages/service/exports.tsx') },
  { path: 'exports/:tab', title: 'Exports', load: () => import('./pages/service/exports.tsx') },
  { path: 'machine', title: 'Machine', section: 'Service', load: () => import('./pages/service/machine.tsx') },
]
