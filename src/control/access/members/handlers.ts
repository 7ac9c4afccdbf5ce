// Handlers of the Members contract.
import { known, type Handlers } from '../../../http/route.ts'
import type { members as contract } from './contract.ts'
import type { Members } from './members.ts'

export const memberHandlers = (members: Members): Handlers<typeof contract> => ({
  inviteMember: ({ principal, body }) => members.invite(known(principal), body),
  listMembers: ({ principal, query }) => members.list(known(principal), query),
  getMember: ({ principal, params }) => members.get(known(principal), params.id),
  updateMember: ({ principal, params, body }) => members.setRole(known(principal), params.id, body.role, body.project_id),
  removeMember: ({ principal, params, query }) => members.remove(known(principal), params.id, query.project_id),
})
