// Browser pools: all of a project, and a new one.
import { Link, useNavigate } from 'react-router'
import { useRights } from '../../api/rights.ts'
import { useChange } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { examples } from '../../ui/code.tsx'
import { Empty } from '../../ui/empty.tsx'
import { FormDialog } from '../../ui/form.tsx'
import { List, type Column, type Filter } from '../../ui/list.tsx'
import { Head } from '../../ui/page.tsx'
import { Ago, Mono } from '../../ui/show.tsx'
import { bodyOfPool, nameOf, usePoolFields, type Pool } from './fields.ts'

const REFRESH_MS = 3_000
const FILTERS: Filter[] = [{ kind: 'search', name: 'query', label: 'Search by name or id' }]

const COLUMNS: Column<Pool>[] = [
  {
    title: 'Pool',
    cell: (pool) => (
      <span className="main-cell">
        <Link to={`/pools/${pool.id}`}>{nameOf(pool)}</Link>
        {pool.name && (
          <small>
            <Mono>{pool.id}</Mono>
          </small>
        )}
        {pool.problem && <small className="problem">{pool.problem}</small>}
      </span>
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
        filters={FILTERS}
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
