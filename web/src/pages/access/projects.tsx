// Projects, their limits, and the limits of the service.
import type { ItemOf } from '../../api/contracts.ts'
import { useCall, useChange } from '../../api/queries.ts'
import { useRights } from '../../api/rights.ts'
import { Act } from '../../ui/act.tsx'
import { Button, RowButton } from '../../ui/button.tsx'
import { Dialog } from '../../ui/confirm.tsx'
import { ErrorNotice } from '../../ui/error.tsx'
import { Form, FormDialog } from '../../ui/form.tsx'
import { List, Loading, type Column, type Filter } from '../../ui/list.tsx'
import { Head } from '../../ui/page.tsx'
import { Remove } from '../../ui/remove.tsx'
import { Ago, Facts, Mono, Two } from '../../ui/show.tsx'
import { StateOf } from '../../ui/state-of.tsx'
import { done } from '../../ui/toasts.tsx'

type Project = ItemOf<'listProjects'>

const FILTERS: Filter[] = [{ kind: 'search', name: 'query', label: 'Search by name' }]
const READS = ['listProjects', 'getMe'] as const
const limitHint = '0: no limit of its own.'

function NewProject() {
  const create = useChange('createProject', READS)
  return (
    <FormDialog
      title="New project"
      trigger={<Button look="primary">New project</Button>}
      fields={[{ name: 'name', label: 'Name', isRequired: true }]}
      action="Create"
      send={async (body) => {
        await create.mutateAsync({ body: body as { name: string } })
        done('Created')
      }}
    />
  )
}

function Limits({ project, mayOwn }: { project: Project; mayOwn: boolean }) {
  return (
    <Dialog title={`Limits of ${project.name}`} trigger={<RowButton label={`Limits of ${project.name}`}>Limits</RowButton>}>
      {(close) => <LimitsOf project={project} mayOwn={mayOwn} close={close} />}
    </Dialog>
  )
}

function LimitsOf({ project, mayOwn, close }: { project: Project; mayOwn: boolean; close: () => void }) {
  const params = { id_or_name: project.id }
  const { data, error, isPending } = useCall('getProjectLimits', { params })
  const change = useChange('updateProjectLimits', ['getProjectLimits'])
  if (isPending) return <Loading label="the limits" />
  if (!data) return <ErrorNotice error={error} what="The limits" />
  const { max_concurrent_sessions: sessions, max_concurrent_invocations: invocations } = data
  if (!mayOwn)
    return (
      <>
        <Facts
          facts={[
            ['Sessions at a time', sessions ?? 'no limit of its own'],
            ['Invocations at a time', invocations ?? 'no limit of its own'],
          ]}
        />
        <div className="buttons">
          <Button onPress={close}>Close</Button>
        </div>
      </>
    )
  return (
    <Form
      fields={[
        { name: 'max_concurrent_sessions', label: 'Sessions at a time', kind: 'number', initial: String(sessions ?? 0), isRequired: true, hint: limitHint },
        {
          name: 'max_concurrent_invocations',
          label: 'Invocations at a time',
          kind: 'number',
          initial: String(invocations ?? 0),
          isRequired: true,
          hint: limitHint,
        },
      ]}
      action="Save"
      onCancel={close}
      send={async (body) => {
        await change.mutateAsync({ params, body })
        done('Saved')
        close()
      }}
    />
  )
}

function Archive({ project: { id, status, name } }: { project: Project }) {
  const change = useChange('updateProject', READS)
  const isActive = status === 'active'
  return (
    <Act
      label={`${isActive ? 'Archive' : 'Activate'} ${name}`}
      busy={isActive ? 'Archiving…' : 'Activating…'}
      failure="The project has not been changed"
      work={async () => {
        await change.mutateAsync({ params: { id_or_name: id }, body: { status: isActive ? 'archived' : 'active' } })
        done(isActive ? 'Archived' : 'Active again')
      }}
    >
      {isActive ? 'Archive' : 'Activate'}
    </Act>
  )
}

function Rename({ project }: { project: Project }) {
  const change = useChange('updateProject', READS)
  return (
    <FormDialog
      title="Rename the project"
      trigger={<RowButton label={`Rename ${project.name}`}>Rename</RowButton>}
      fields={[{ name: 'name', label: 'Name', initial: project.name, isRequired: true }]}
      action="Save"
      send={async (body) => {
        await change.mutateAsync({ params: { id_or_name: project.id }, body })
        done('Saved')
      }}
    />
  )
}

const columns = (mayOwn: boolean, mayOwnAll: boolean): Column<Project>[] => [
  {
    title: 'Project',
    cell: ({ name, id }) => <Two below={<Mono>{id}</Mono>}>{name}</Two>,
  },
  { title: 'State', cell: ({ status }) => <StateOf state={status} /> },
  { title: 'Created', isMinor: true, cell: ({ created_at: at }) => <Ago at={at} /> },
  {
    title: 'Actions',
    cell: (project) => (
      <span className="row-actions">
        <Limits project={project} mayOwn={mayOwn} />
        {mayOwnAll && (
          <>
            <Rename project={project} />
            <Archive project={project} />
            <Remove
              call="deleteProject"
              input={{ params: { id_or_name: project.id } }}
              changes={READS}
              what="the project"
              name={project.name}
              text="only an empty one can be deleted. Its API keys stop working."
            />
          </>
        )}
      </span>
    ),
  },
]

/** The limits of all projects together. A key of one project may not see them. */
function ServiceLimits() {
  const may = useRights()
  const { data } = useCall('getOrgLimits', {}, { enabled: may.ownAll, everyMs: 10_000 })
  const change = useChange('updateOrgLimits', ['getOrgLimits'])
  if (!data) return null
  return (
    <section className="panel" aria-label="Limits of the service">
      <h2>All projects together</h2>
      <Facts
        facts={[
          ['Sessions now', `${data.concurrent_sessions_used} of ${data.max_concurrent_sessions}`],
          ['Each project, unless it has its own limit', data.default_project_max_concurrent_sessions ?? 'no limit'],
          ['Managed logins', data.max_auth_connections === null ? data.auth_connections_used : `${data.auth_connections_used} of ${data.max_auth_connections}`],
        ]}
      />
      <p className="buttons section">
        <FormDialog
          title="Limit of each project"
          trigger={<Button>Change the limit of each project</Button>}
          fields={[
            {
              name: 'default_project_max_concurrent_sessions',
              label: 'Sessions at a time',
              kind: 'number',
              initial: String(data.default_project_max_concurrent_sessions ?? 0),
              isRequired: true,
              hint: 'For projects that have no limit of their own. 0: none.',
            },
          ]}
          action="Save"
          send={async (body) => {
            await change.mutateAsync({ body })
            done('Saved')
          }}
        />
      </p>
    </section>
  )
}

export default function Projects() {
  const may = useRights()
  return (
    <>
      <Head title="Projects and limits" text="Each has its own sessions, profiles and keys; nobody sees from one into another.">
        {may.ownAll && <NewProject />}
      </Head>
      <ServiceLimits />
      <div className="section">
        <List
          id="listProjects"
          label="Projects"
          filters={FILTERS}
          columns={columns(may.own, may.ownAll)}
          keyOf={({ id }) => id}
          empty={<p className="muted">No projects.</p>}
        />
      </div>
    </>
  )
}
