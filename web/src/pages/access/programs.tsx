// Programs that were given access on the consent page: command lines, MCP hosts.
import type { ItemOf } from '../../api/contracts.ts'
import { useMe } from '../../api/sign-in.ts'
import { Empty } from '../../ui/empty.tsx'
import { List, type Column } from '../../ui/list.tsx'
import { Head } from '../../ui/page.tsx'
import { Remove } from '../../ui/remove.tsx'
import { Ago, Two } from '../../ui/show.tsx'

type Program = ItemOf<'listAllowedPrograms'>

const columns = (nameOf: (project: string) => string): Column<Program>[] => [
  {
    title: 'Program',
    cell: ({ name, looks_only: looksOnly }) => <Two below={looksOnly ? 'may only look' : 'may do what you may'}>{name}</Two>,
  },
  { title: 'Project', cell: ({ project_id: id }) => (id === null ? 'all of yours' : nameOf(id)) },
  { title: 'Allowed', isMinor: true, cell: ({ created_at: at }) => <Ago at={at} /> },
  { title: 'Ends unless it is used', isMinor: true, cell: ({ expires_at: at }) => <Ago at={at} /> },
  {
    title: 'Actions',
    cell: ({ id, name }) => (
      <span className="row-actions">
        <Remove
          call="endAllowedProgram"
          input={{ params: { id } }}
          changes={['listAllowedPrograms']}
          what="the access of this program"
          name={name}
          text="it is refused at once, and what it is just doing ends. It may ask you again."
        />
      </span>
    ),
  },
]

export default function Programs() {
  const projects = useMe().data?.projects ?? []
  return (
    <>
      <Head
        title="Allowed programs"
        text="Programs that may act for you because you allowed it: command lines, and hosts of MCP servers. Only you see these."
      />
      <List
        id="listAllowedPrograms"
        label="Allowed programs"
        columns={columns((id) => projects.find((project) => project.id === id)?.name ?? id)}
        keyOf={({ id }) => id}
        empty={
          <Empty
            title="No programs"
            text="A program asks for access when you sign in with it: the command line by “kernel login”, a host of MCP servers when it connects."
          />
        }
      />
    </>
  )
}
