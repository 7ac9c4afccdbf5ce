// Projects: the effective project of a call, the objects in a project, and its limits.
import { defineModule } from '../../module.ts'
import { apiKeys } from '../api-keys/module.ts'
import { projects as contract } from './contract.ts'
import { projectHandlers } from './handlers.ts'
import { makeCaps, makeLimits, type Caps } from './limits.ts'
import { makeProjects } from './projects.ts'
import { projectResolver, type ResolveProject } from './resolve.ts'

interface Projects {
  resolve: ResolveProject
  /** The limits of projects, for groups that give seats. */
  caps: Caps
}

export const projects = defineModule<Projects>({
  name: 'projects',
  contracts: [contract],
  open(house) {
    const { db, scope, config } = house
    const { rights } = house.of(apiKeys)
    const [sessions, invocations, connections] = [house.count('sessions'), house.count('invocations'), house.count('auth_connections')]
    const caps = makeCaps(db, {
      sessions: (tx, project) => sessions(tx, { project }),
      invocations: (tx, project) => invocations(tx, { project }),
    })
    const limits = makeLimits({
      db,
      maxSessions: config.maxBrowsers,
      sessions: () => sessions(db, { scope }),
      authConnections: () => connections(db, { scope }),
      onChange: () => caps.forget(),
    })
    const holdings = house.modules.flatMap((module) => module.holdings ?? [])
    house.mount(contract, projectHandlers(makeProjects({ db, holdings, onChange: () => rights.taken() }), limits))
    return { resolve: projectResolver(db, rights), caps }
  },
})
