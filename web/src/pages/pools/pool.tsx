// One browser pool: its configuration, and its acquired browsers.
import { Link, useNavigate, useParams } from 'react-router'
import type { ItemOf } from '../../api/contracts.ts'
import { useCall, useChange } from '../../api/queries.ts'
import { useRights } from '../../api/rights.ts'
import { Act } from '../../ui/act.tsx'
import { Button } from '../../ui/button.tsx'
import { Confirm } from '../../ui/confirm.tsx'
import { FormDialog } from '../../ui/form.tsx'
import { List } from '../../ui/list.tsx'
import { Ago, duration, Facts, Mono, Named, Outside } from '../../ui/show.tsx'
import { Thing } from '../../ui/thing.tsx'
import { done } from '../../ui/toasts.tsx'
import { kindOf } from '../sessions/model.ts'
import { bodyOfPool, nameOf, usePoolFields, type Pool } from './fields.ts'
import '../../ui/form.css'

const REFRESH_MS = 3_000
const READS = ['getBrowserPool', 'listBrowserPools', 'listBrowsers'] as const

export default function PoolPage() {
  const { id = '' } = useParams()
  const query = useCall('getBrowserPool', { params: { id_or_name: id } }, { everyMs: REFRESH_MS })
  const may = useRights()
  return (
    <Thing
      query={query}
      what="This pool"
      back={<Link to="/pools">Pools</Link>}
      titleOf={nameOf}
      text={({ available_count: idle, acquired_count: lent, browser_pool_config: { size } }) => `${idle} idle and ${lent} lent, of ${size}`}
      buttons={(pool) => may.use && <Buttons pool={pool} />}
    >
      {(pool) => (
        <>
          {pool.problem && (
            <div className="notice" role="status">
              <h2>The last browser could not be made</h2>
              <p>{pool.problem}</p>
            </div>
          )}
          <Configuration pool={pool} />
          <section className="section">
            <h2>Lent browsers</h2>
            <Lent pool={pool} mayUse={may.use} />
          </section>
        </>
      )}
    </Thing>
  )
}

function Configuration({ pool }: { pool: Pool }) {
  const { viewport, profile, proxy, extensions, network, ...config } = pool.browser_pool_config
  const named = (choice: { id?: string | undefined; name?: string | undefined } | undefined) => choice && (choice.name ?? choice.id)
  return (
    <section className="panel" aria-label="Configuration">
      <Facts
        facts={[
          ['Id', <Mono key="id">{pool.id}</Mono>],
          ['Size', config.size],
          ['Made again in a minute', `${config.fill_rate_per_minute} %`],
          ['A lent browser ends after', `${duration(config.timeout_seconds * 1000)} without use`],
          ['Kind', kindOf(config)],
          ['Screen', viewport && `${viewport.width} × ${viewport.height}`],
          ['Start page', config.start_url && <Outside url={config.start_url} />],
          ['Profile', named(profile)],
          ['Proxy', named(proxy) ?? config.proxy_id],
          ['Extensions', extensions?.map(named).join(', ')],
          ['Reaches only', network?.allowed_hosts?.join(', ')],
          ['Reaches without a proxy', network?.private_hosts?.join(', ')],
          ['Reaches by other proxies', network?.proxy_routes?.flatMap(({ hosts }) => hosts).join(', ')],
          ['Created', <Ago key="created" at={pool.created_at} />],
        ]}
      />
    </section>
  )
}

function Buttons({ pool }: { pool: Pool }) {
  const params = { id_or_name: pool.id }
  const acquire = useChange('acquireBrowser', READS)
  const change = useChange('updateBrowserPool', READS)
  const flush = useChange('flushBrowserPool', READS)
  const remove = useChange('deleteBrowserPool', READS)
  const navigate = useNavigate()
  const fields = usePoolFields(pool)
  return (
    <>
      <Act
        look="plain"
        busy="Acquiring…"
        failure="No browser could be acquired"
        work={async () => {
          const browser = await acquire.mutateAsync({ params, body: { acquire_timeout_seconds: 20 } })
          // The answer is empty when no browser was free in time.
          if (browser?.session_id === undefined) throw new Error('None was free within 20 seconds. Try again, or make the pool larger.')
          await navigate(`/sessions/${browser.session_id}`)
        }}
      >
        Acquire
      </Act>
      <FormDialog
        title="Change the pool"
        trigger={<Button>Change</Button>}
        fields={fields}
        action="Save"
        text={<p className="muted">Browsers that are lent keep what they were made with.</p>}
        send={async (body) => {
          await change.mutateAsync({ params, body: bodyOfPool(body, pool) })
          done('Saved')
        }}
      />
      <Confirm
        title="Make the idle browsers anew?"
        text={<p>The {pool.available_count} idle browsers end, and the pool is filled again at its rate. Lent ones stay.</p>}
        action="Flush"
        trigger={<Button>Flush</Button>}
        onConfirm={async () => {
          await flush.mutateAsync({ params })
          done('The idle browsers are made anew')
        }}
      />
      <Confirm
        title="Delete the pool?"
        text={
          <p>
            <b>{nameOf(pool)}</b> and its idle browsers are gone after that.{' '}
            {pool.acquired_count > 0 && `The ${pool.acquired_count} lent ones end, too: programs that use them lose them.`}
          </p>
        }
        action="Delete"
        trigger={<Button look="danger">Delete</Button>}
        onConfirm={async () => {
          await remove.mutateAsync({ params, body: { force: pool.acquired_count > 0 } })
          done('Deleted')
          await navigate('/pools')
        }}
      />
    </>
  )
}

function Lent({ pool, mayUse }: { pool: Pool; mayUse: boolean }) {
  return (
    <List
      id="listBrowsers"
      label="Lent browsers"
      query={{ query: pool.id, status: 'active' }}
      everyMs={REFRESH_MS}
      keyOf={({ session_id: id }) => id}
      columns={[
        { title: 'Session', cell: ({ session_id: id, name }) => <Named id={id} name={name} to={`/sessions/${id}`} /> },
        { title: 'Since', cell: ({ created_at: at }) => <Ago at={at} /> },
        { title: 'Actions', cell: (session) => mayUse && <GiveBack pool={pool} session={session} /> },
      ]}
      empty={<p className="muted">No program has one now.</p>}
    />
  )
}

function GiveBack({ pool, session }: { pool: Pool; session: ItemOf<'listBrowsers'> }) {
  const release = useChange('releaseBrowser', READS)
  const give = async (reuse: boolean): Promise<void> => {
    await release.mutateAsync({ params: { id_or_name: pool.id }, body: { session_id: session.session_id, reuse } })
    done(reuse ? 'Given back' : 'Discarded: another one is made')
  }
  const name = session.name ?? session.session_id
  return (
    <span className="row-actions">
      <Confirm
        title="Give it back?"
        text={<p>The program that has it loses it. The next caller gets the same browser, with its state.</p>}
        action="Give back"
        trigger={
          <Button look="quiet" aria-label={`Give back ${name}`}>
            Give back
          </Button>
        }
        onConfirm={() => give(true)}
      />
      <Confirm
        title="Discard it?"
        text={<p>The program that has it loses it. The browser ends, and the pool makes another one.</p>}
        action="Discard"
        trigger={
          <Button look="quiet" aria-label={`Discard ${name}`}>
            Discard
          </Button>
        }
        onConfirm={() => give(false)}
      />
    </span>
  )
}
