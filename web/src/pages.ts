// Every page of the dashboard: where it is, what the navigation calls it, and its chunk. A new page is one line here (web/README.md).
import type { ComponentType } from 'react'

export interface PageEntry {
  /** Below `/dashboard/`. */
  path: string
  /** The title of the document; pages about one thing add its name (`usePageTitle`). */
  title: string
  /** Its place in the navigation; a page about one thing has none. */
  section?: (typeof SECTIONS)[number]
  load: () => Promise<{ default: ComponentType }>
}

export const SECTIONS = ['Browsers', 'Apps', 'Access', 'Service'] as const

export const PAGES: PageEntry[] = [
  { path: 'sessions', title: 'Sessions', section: 'Browsers', load: () => import('./pages/sessions/list.tsx') },
  { path: 'sessions/:id', title: 'Session', load: () => import('./pages/sessions/session.tsx') },
  { path: 'sessions/:id/:tab', title: 'Session', load: () => import('./pages/sessions/session.tsx') },
  { path: 'wall', title: 'Wall', section: 'Browsers', load: () => import('./pages/sessions/wall.tsx') },
]
