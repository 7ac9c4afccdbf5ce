// What the person may do in the project that the pages are about, by rank. The service decides; pages only leave out what it would refuse.
import { useProject } from './project.ts'
import { mayOf, useMe } from './sign-in.ts'

export interface Rights {
  /** Change what is in the project. */
  use: boolean
  /** Decide who may, in the project. */
  own: boolean
  /** Decide for the whole service: what no project has for itself. */
  ownAll: boolean
}

export function useRights(): Rights {
  const me = useMe().data
  const may = mayOf(me, useProject())
  return { use: may('createBrowser'), own: may('createApiKey'), ownAll: me?.role === 'owner' }
}
