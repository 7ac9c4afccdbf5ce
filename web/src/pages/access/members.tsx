// Members: people who may sign in, and their roles in all projects or in single projects.
import type { ItemOf } from '../../api/contracts.ts'
import { useChange } from '../../api/queries.ts'
import { useRights } from '../../api/rights.ts'
import { Button, RowButton } from '../../ui/button.tsx'
import { useProjectChoices } from '../../ui/choices.ts'
import { Confirm } from '../../ui/confirm.tsx'
import { examples } from '../../ui/code.tsx'
import { Empty } from '../../ui/empty.tsx'
import { FormDialog } from '../../ui/form.tsx'
import type { FieldSpec } from '../../ui/form-values.ts'
import { List, type Column, type Filter } from '../../ui/list.tsx'
import { Head } from '../../ui/page.tsx'
import { Ago, Two } from '../../ui/show.tsx'
import { StateOf } from '../../ui/state-of.tsx'
import { done } from '../../ui/toasts.tsx'

type Member = ItemOf<'listMembers'>
type Role = Member['projects'][number]['role']

/** Stands for all projects in a field's name. */
const ALL = 'all'

const FILTERS: Filter[] = [{ kind: 'search', name: 'query', label: 'Search by name or address' }]
const ROLES = [
  ['member', 'Member: works in it'],
  ['viewer', 'Viewer: looks on'],
  ['owner', 'Owner: decides who may'],
] as const

const nameOf = ({ name, email, subject, id }: Member): string => name ?? email ?? subject ?? id

function Invite() {
  const invite = useChange('inviteMember', ['listMembers'])
  const scopes = useProjectChoices()
  return (
    <FormDialog
      title="Invite somebody"
      trigger={<Button look="primary">Invite</Button>}
      text={<p className="muted">They get the role when they sign in with this address. No mail is sent: tell them.</p>}
      fields={[
        { name: 'email', label: 'E-mail address', isRequired: true },
        { name: 'name', label: 'Name', hint: 'May be empty.' },
        { name: 'role', label: 'Role', kind: 'choice', options: ROLES },
        { name: 'project_id', label: 'In', kind: 'choice', options: scopes },
      ]}
      action="Invite"
      send={async (body) => {
        await invite.mutateAsync({ body: body as { email: string; role: 'member' } })
        done('Invited')
      }}
    />
  )
}

/** The role of a member in one project, or with '' in all projects. */
const roleIn = ({ role, projects }: Member, scope: string): Role | undefined =>
  (scope === '' ? role : projects.find(({ id }) => id === scope)?.role) ?? undefined

/** One role field per project. The form shows the field of the chosen project, so it starts with the person's role there. */
function roleFields(member: Member, scopes: ReturnType<typeof useProjectChoices>): FieldSpec[] {
  const first = scopes.find(([scope]) => roleIn(member, scope) !== undefined) ?? scopes[0]
  return [
    { name: 'project_id', label: 'In', kind: 'choice', options: scopes, initial: first?.[0] ?? '' },
    ...scopes.map(([scope]): FieldSpec => {
      const has = roleIn(member, scope)
      return {
        name: `roles.${scope || ALL}`,
        label: 'Role',
        kind: 'choice',
        options: has === undefined ? [['', 'None yet'], ...ROLES] : ROLES,
        initial: has ?? '',
        isRequired: true,
        when: ({ project_id: chosen }) => chosen === scope,
      }
    }),
  ]
}

function Change({ member }: { member: Member }) {
  const change = useChange('updateMember', ['listMembers', 'getMe'])
  const fields = roleFields(member, useProjectChoices())
  return (
    <FormDialog
      title={`Role of ${nameOf(member)}`}
      trigger={<RowButton label={`Change the role of ${nameOf(member)}`}>Role</RowButton>}
      fields={fields}
      action="Save"
      send={async ({ project_id: project, roles }) => {
        const role = (roles as Record<string, Role>)[(project as string | undefined) ?? ALL]!
        await change.mutateAsync({ params: { id: member.id }, body: { role, ...(project !== undefined && { project_id: project as string }) } })
        done('Saved')
      }}
    />
  )
}

function RemoveMember({ member, project }: { member: Member; project?: Member['projects'][number] }) {
  const remove = useChange('removeMember', ['listMembers'])
  return (
    <Confirm
      title={project ? `Take the role in ${project.name}?` : 'Remove this person?'}
      text={
        <p>
          <b>{nameOf(member)}</b> {project ? 'keeps the roles in other projects.' : 'loses all roles, and is signed out.'}
        </p>
      }
      action="Remove"
      trigger={<RowButton label={`Remove ${nameOf(member)}${project ? ` from ${project.name}` : ''}`}>{project ? '×' : 'Remove'}</RowButton>}
      onConfirm={async () => {
        await remove.mutateAsync({ params: { id: member.id }, query: project ? { project_id: project.id } : {} })
        done('Removed')
      }}
    />
  )
}

const columns = (mayOwn: boolean, mayOwnAll: boolean): Column<Member>[] => [
  {
    title: 'Person',
    cell: (member) => <Two below={member.name && (member.email ?? member.subject)}>{nameOf(member)}</Two>,
  },
  { title: 'State', cell: ({ status }) => <StateOf state={status} /> },
  {
    title: 'Roles',
    cell: (member) => (
      <span className="main-cell">
        {member.role && <span>{member.role} of all projects</span>}
        {member.projects.map((project) => (
          <span key={project.id}>
            {project.role} of {project.name} {mayOwn && <RemoveMember member={member} project={project} />}
          </span>
        ))}
      </span>
    ),
  },
  { title: 'Last sign-in', isMinor: true, cell: ({ signed_in_at: at }) => <Ago at={at} /> },
  {
    title: 'Actions',
    cell: (member) =>
      mayOwn && (
        <span className="row-actions">
          <Change member={member} />
          {mayOwnAll && <RemoveMember member={member} />}
        </span>
      ),
  },
]

export default function Members() {
  const may = useRights()
  return (
    <>
      <Head title="Members" text="People who may sign in, and what they may do.">
        {may.own && <Invite />}
      </Head>
      <List
        id="listMembers"
        label="Members"
        filters={FILTERS}
        columns={columns(may.own, may.ownAll)}
        keyOf={({ id }) => id}
        empty={
          <Empty
            title="No members"
            text="People sign in with the identity provider of the service, if its operator has set one up. Invite the first one here, or from a program:"
            examples={examples(
              `console.log(await kernel.post('/org/members', { body: { email: 'ada@example.com', role: 'member' } }))`,
              `print(kernel.post("/org/members", cast_to=object, body={"email": "ada@example.com", "role": "member"}))`,
              `-H "Content-Type: application/json" -d '{"email": "ada@example.com", "role": "member"}' $URL/org/members`,
            )}
          />
        }
      />
    </>
  )
}
