// Chooses the project of all pages.
import { project, useProject } from '../api/project.ts'
import { queries } from '../api/queries.ts'
import { useMe } from '../api/sign-in.ts'
import { Select } from '../ui/field.tsx'

export function ProjectSwitcher() {
  const projects = useMe().data?.projects ?? []
  const chosen = useProject()
  // The stored choice may be a project that was deleted or that this key cannot see. The service would refuse every call.
  const isKnown = projects.some(({ id }) => id === chosen)
  if (chosen !== undefined && projects.length > 0 && !isKnown) project.choose(undefined)
  if (projects.length === 0) return null
  if (projects.length === 1) return <p className="project">{projects[0]!.name}</p>
  return (
    <div className="project">
      <Select
        label="Project"
        value={isKnown ? chosen! : ''}
        options={[...(isKnown ? [] : ([['', 'Default project']] as const)), ...projects.map(({ id, name }) => [id, name] as const)]}
        onChange={(id) => {
          project.choose(id === '' ? undefined : id)
          queries.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'getMe' })
        }}
      />
    </div>
  )
}
