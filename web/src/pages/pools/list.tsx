// Browser pools: all of a project, and a new one.
import { useNavigate } from 'react-router'
import { useRights } from '../../api/rights.ts'
import { useChange } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { examples } from '../../ui/code.tsx'
import { Empty } from '../../ui/empty.tsx'
import { FormDialog } from '../../ui/form.tsx'
import { BY_NAME, List, type Column } from '../../ui/list.tsx'
import { Head } from '../../ui/page.tsx'
import { Ago, Named } from '../../ui/show.tsx'
import { bodyOfPool, usePoolFields, type Pool } from './fields.ts'

const REFRESH_MS = 3_000

const COLUMNS: Column<Pool>[] = [
  {
    title: 'Pool',
    cell: ({ id, name, problem }) => (
      <Named id={id} name={name} to={`/pools/${id}`}>
        {problem && <small className="problem">{problem}</small>}
      </Named>
    ),
  },
  { title: 'Size', isNumber: true, cell: ({ browser_pool_config: { size } }) => size },
  { title: 'Idle', isNumber: true, cell: ({ available_count: count }) => count },
  { title: 'Lent', isNumber: true, cell: ({ acquired_count: count }) => count },
  { title: 'Created', isMinor: true, cell: ({ created_at: at }) => <Ago at={at} /> },
]

function NewPool() {
  const create = useChange('createBrowserPool', ['listBrowserPools'])
  const navigate = useNavigate()
  const fields = usePoolFields()
  return (
    <FormDialog
      title="New pool"
      trigger={<Button look="primary">New pool</Button>}
      fields={fields}
      action="Create"
      send={async (body) => {
        const { id } = await create.mutateAsync({ body: bodyOfPool(body) })
        await navigate(`/pools/${id}`)
      }}
    />
  )
}

export default function Pools() {
  const may = useRights()
  return (
    <>
      <Head title="Pools" text="Browsers of one configuration that are kept ready and lent to programs.">
        {may.use && <NewPool />}
      </Head>
      <List
        id="listBrowserPools"
        label="Pools"
        filters={BY_NAME}
        columns={COLUMNS}
        keyOf={({ id }) => id}
        everyMs={REFRESH_MS}
        empty={
          <Empty
            title="No pools"
            text="A pool keeps browsers of one configuration, so that a program gets one at once. Create one here, or from a program:"
            examples={examples(
              `const pool = await kernel.browserPools.create({ name: 'search', size: 1 })\nconst browser = await kernel.browserPools.acquire(pool.id, {})\nconsole.log(browser.cdp_ws_url)\nawait kernel.browserPools.release(pool.id, { session_id: browser.session_id })`,
              `pool = kernel.browser_pools.create(name="search", size=1)\nbrowser = kernel.browser_pools.acquire(pool.id)\nprint(browser.cdp_ws_url)\nkernel.browser_pools.release(pool.id, session_id=browser.session_id)`,
              `-H "Content-Type: application/json" -d '{"name": "search", "size": 1}' $URL/browser_pools`,
            )}
          />
        }
      />
    </>
  )
}
