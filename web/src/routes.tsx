// The dashboard's routes in the browser, built from the list of pages.
import { createBrowserRouter, redirect, type RouteObject } from 'react-router'
import { PAGES, type PageEntry } from './pages.ts'
import { Broken, NoSuchPage } from './shell/broken.tsx'
import { Frame } from './shell/frame.tsx'

const routeOf = ({ path, title, load }: PageEntry): RouteObject => ({
  path,
  handle: { title },
  lazy: async () => ({ Component: (await load()).default }),
})

export const BASE = '/dashboard'

// The service also serves the page at `/`.
if (location.pathname === '/') history.replaceState(null, '', BASE)

export const router: ReturnType<typeof createBrowserRouter> = createBrowserRouter(
  [
    {
      path: '/',
      Component: Frame,
      ErrorBoundary: Broken,
      HydrateFallback: () => null,
      children: [
        { index: true, loader: () => redirect('/sessions') },
        ...PAGES.map((entry) => ({ ...routeOf(entry), ErrorBoundary: Broken })),
        { path: '*', Component: NoSuchPage },
      ],
    },
  ],
  { basename: BASE },
)
