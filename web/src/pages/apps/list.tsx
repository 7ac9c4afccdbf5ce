// Apps: the versions that can be invoked.
import { Link } from 'react-router'
import type { ItemOf } from '../../api/contracts.ts'
import { useRights } from '../../api/rights.ts'
import { examples } from '../../ui/code.tsx'
import { Empty } from '../../ui/empty.tsx'
import { List, type Column, type Filter } from '../../ui/list.tsx'
import { Head } from '../../ui/page.tsx'
import { Mono, Two } from '../../ui/show.tsx'
import { Deploy } from './deploy.tsx'
import { Invoke } from './invoke.tsx'

type App = ItemOf<'listApps'>

const REFRESH_MS = 10_000
const FILTERS: Filter[] = [{ kind: 'search', name: 'query', label: 'Search by name or id' }]

const columns = (mayUse: boolean): Column<App>[] => [
  {
    title: 'App',
    cell: ({ app_name: name, version }) => (
      <Two below={`version ${version}`}>
        <b>{name}</b>
      </Two>
    ),
  },
  { title: 'Actions of it', cell: ({ actions }) => <Mono>{actions.map(({ name }) => name).join(', ')}</Mono> },
  { title: 'Deployment', isMinor: true, cell: ({ deployment: id }) => <Link to={`/deployments/${id}`}>{id}</Link> },
  { title: 'Variables', isMinor: true, cell: ({ env_vars: vars }) => <Mono>{Object.keys(vars).join(', ')}</Mono> },
  {
    title: 'Actions',
    cell: (app) => (
      <span className="row-actions">
        <Link className="button quiet" to={`/invocations?query=${encodeURIComponent(app.app_name)}`} aria-label={`Invocations of ${app.app_name}`}>
          Invocations
        </Link>
        {mayUse && <Invoke app={app} />}
      </span>
    ),
  },
]

export default function Apps() {
  const may = useRights()
  return (
    <>
      <Head title="Apps" text="Code that runs beside the browsers. Each version has actions that programs invoke.">
        {may.use && <Deploy />}
      </Head>
      <List
        id="listApps"
        label="Apps"
        filters={FILTERS}
        columns={columns(may.use)}
        keyOf={({ id }) => id}
        everyMs={REFRESH_MS}
        empty={
          <Empty
            title="No apps"
            text="Zip a folder with your code, its package.json at the root, and deploy it here or from a program:"
            examples={examples(
              `import { createReadStream } from 'node:fs'\n\nconst deployment = await kernel.deployments.create({ entrypoint_rel_path: 'app.ts', file: createReadStream('app.zip') })\nfor await (const event of await kernel.deployments.follow(deployment.id)) {\n  console.log(event)\n  if (event.event === 'deployment_state' && ['running', 'failed'].includes(event.deployment.status)) break\n}`,
              `from pathlib import Path\n\ndeployment = kernel.deployments.create(entrypoint_rel_path="app.py", file=Path("app.zip"))\nfor event in kernel.deployments.follow(deployment.id):\n    print(event)\n    if event.event == "deployment_state" and event.deployment.status in ("running", "failed"):\n        break`,
              `-F entrypoint_rel_path=app.ts -F file=@app.zip $URL/deployments`,
            )}
          />
        }
      />
    </>
  )
}
