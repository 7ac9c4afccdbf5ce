// The contract of the Members group: people, and their roles in all projects or in single ones.
import * as z from 'zod'
import { json, none, page, pagingQuery, ROLES, route } from '../../../http/route.ts'
import { Time } from '../../apps/apps/contract.ts'

const group = 'Members'
const right = 'own'

const Role = z.enum(ROLES)
const ProjectId = z.string().min(1).max(255)

const Member = z.object({
  id: z.string(),
  email: z.string().nullable(),
  name: z.string().nullable(),
  /** The person's id at the identity provider; null until an invited person has signed in, unless the invitation named it. */
  subject: z.string().nullable(),
  /** `invited`: the person has not signed in yet. */
  status: z.enum(['invited', 'active']),
  /** In all projects; null: only in the projects of the list. */
  role: Role.nullable(),
  projects: z.array(z.object({ id: z.string(), name: z.string(), role: Role })),
  created_at: Time,
  signed_in_at: Time.nullable(),
})
export type Member = z.output<typeof Member>

const Invite = z
  .strictObject({
    /** The person gets the role when they sign in with this address and the provider says that it is verified. */
    email: z.email().max(320).optional(),
    /** Instead: the person's id (`sub`) at the identity provider. */
    subject: z.string().min(1).max(255).optional(),
    name: z.string().min(1).max(255).optional(),
    role: Role,
    /** Absent or null: in all projects. */
    project_id: ProjectId.optional(),
  })
  .refine(({ email, subject }) => (email === undefined) !== (subject === undefined), { path: ['email'], error: 'give either email or subject' })
export type Invite = z.output<typeof Invite>

const params = z.strictObject({ id: z.string().min(1).max(255) })

export const members = {
  inviteMember: route({
    method: 'POST',
    path: '/org/members',
    id: 'inviteMember',
    right,
    group,
    summary: 'Give a person a role before they sign in for the first time',
    body: Invite,
    reply: json(Member, 201),
    faults: ['forbidden', 'conflict'],
  }),
  listMembers: route({
    method: 'GET',
    path: '/org/members',
    id: 'listMembers',
    right,
    group,
    summary: 'List the people who may sign in, and their roles',
    query: z.strictObject({
      ...pagingQuery,
      /** Part of a name or an address. */
      query: z.string().max(1024).optional(),
    }),
    reply: page(Member),
    faults: ['forbidden'],
  }),
  getMember: route({
    method: 'GET',
    path: '/org/members/{id}',
    id: 'getMember',
    right,
    group,
    summary: 'Get a person',
    params,
    reply: json(Member),
    faults: ['forbidden', 'not_found'],
  }),
  updateMember: route({
    method: 'PATCH',
    path: '/org/members/{id}',
    id: 'updateMember',
    right,
    group,
    summary: "Set a person's role in all projects, or in one",
    params,
    body: z.strictObject({ role: Role, project_id: ProjectId.optional() }),
    reply: json(Member),
    faults: ['forbidden', 'not_found', 'conflict'],
  }),
  removeMember: route({
    method: 'DELETE',
    path: '/org/members/{id}',
    id: 'removeMember',
    right,
    group,
    summary: 'Take all roles from a person and end their sign-ins; with project_id, only the role in that project',
    params,
    query: z.strictObject({ project_id: ProjectId.optional() }),
    reply: none(),
    faults: ['forbidden', 'not_found', 'conflict'],
  }),
}
