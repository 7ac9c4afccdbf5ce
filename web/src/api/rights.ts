// The person's rights in the present project. The service decides; pages only hide what it would refuse.
import { useProject } from './project.ts'
import { mayOf, useMe } from './sign-in.ts'

export interface Rights {
  /** May change things in the project. */
  use: boolean
  /** May give rights in the project. */
  own: boolean
  /** May decide for the whole service, about things that belong to no project. */
  ownAll: boolean
}

export function useRights(): Rights {
  const me = useMe().data
  const may = mayOf(me, useProject())
  return { use: may('createBrowser'), own: may('createApiKey'), ownAll: me?.role === 'owner' }
}
