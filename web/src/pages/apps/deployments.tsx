// Deployments of a project, newest first.
import { Link } from 'react-router'
import { useRights } from '../../api/rights.ts'
import { examples } from '../../ui/code.tsx'
import { Empty } from '../../ui/empty.tsx'
import { List, type Filter } from '../../ui/list.tsx'
import { Head } from '../../ui/page.tsx'
import { Ago, Mono, Two } from '../../ui/show.tsx'
import { StateOf } from '../../ui/state-of.tsx'
import { Deploy } from './deploy.tsx'

const REFRESH_MS = 5_000
const FILTERS: Filter[] = [{ kind: 'search', name: 'query', label: "Search by an app's name or an id" }]

export default function Deployments() {
  const may = useRights()
  return (
    <>
      <Head title="Deployments" text="Code that has been sent, and how its build went.">
        {may.use && <Deploy />}
      </Head>
      <List
        id="listDeployments"
        label="Deployments"
        filters={FILTERS}
        everyMs={REFRESH_MS}
        keyOf={({ id }) => id}
        columns={[
          { title: 'Deployment', cell: ({ id }) => <Link to={`/deployments/${id}`}>{id}</Link> },
          {
            title: 'State',
            cell: ({ status, status_reason: reason }) => (
              <Two below={reason?.slice(0, 200)}>
                <StateOf state={status} />
              </Two>
            ),
          },
          { title: 'Entry point', isMinor: true, cell: ({ entrypoint_rel_path: path }) => path && <Mono>{path}</Mono> },
          { title: 'Created', cell: ({ created_at: at }) => <Ago at={at} /> },
        ]}
        empty={
          <Empty
            title="No deployments"
            text="A deployment makes apps of a zip with code. Deploy one here, or from a program:"
            examples={examples(
              `import { createReadStream } from 'node:fs'\n\nconst deployment = await kernel.deployments.create({ entrypoint_rel_path: 'app.ts', file: createReadStream('app.zip') })\nconsole.log(deployment.id)`,
              `from pathlib import Path\n\ndeployment = kernel.deployments.create(entrypoint_rel_path="app.py", file=Path("app.zip"))\nprint(deployment.id)`,
              `-F entrypoint_rel_path=app.ts -F file=@app.zip $URL/deployments`,
            )}
          />
        }
      />
    </>
  )
}
