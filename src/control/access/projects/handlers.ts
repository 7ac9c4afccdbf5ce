// Handlers of the contract of projects and limits.
import { known, type Handlers } from '../../../http/route.ts'
import type { projects as contract } from './contract.ts'
import type { Limits } from './limits.ts'
import type { Projects } from './projects.ts'

export const projectHandlers = (projects: Projects, limits: Limits): Handlers<typeof contract> => ({
  createProject: ({ principal, body }) => projects.create(known(principal), body.name),
  listProjects: ({ principal, query }) => projects.list(known(principal), query),
  getProject: ({ principal, params }) => projects.get(known(principal), params.id_or_name),
  updateProject: ({ principal, params, body }) => projects.update(known(principal), params.id_or_name, body),
  deleteProject: ({ principal, params, signal }) => projects.delete(known(principal), params.id_or_name, signal),
  getProjectLimits: ({ principal, params }) => limits.ofProject(known(principal), params.id_or_name),
  updateProjectLimits: ({ principal, params, body }) => limits.updateProject(known(principal), params.id_or_name, body),
  getOrgLimits: ({ principal }) => limits.ofAll(known(principal)),
  updateOrgLimits: ({ principal, body }) => limits.updateAll(known(principal), body),
})
