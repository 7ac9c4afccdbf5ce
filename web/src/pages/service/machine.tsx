// The machine: whether the parts of the service work, and its free resources.
import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { bytes } from '../../api/client.ts'
import { useCall } from '../../api/queries.ts'
import { useRights } from '../../api/rights.ts'
import { ErrorNotice } from '../../ui/error.tsx'
import { Loading } from '../../ui/list.tsx'
import { Head } from '../../ui/page.tsx'
import { duration, size } from '../../ui/show.tsx'
import { StateOf } from '../../ui/state-of.tsx'
import { parseFigures, sumOf, type Figure } from './figures.ts'
import '../../ui/form.css'
import './machine.css'

const REFRESH_MS = 5_000
const DAY_MS = 86_400_000

const NAMES: Record<string, string> = { api: 'API', database: 'Database', browsers: 'Browsers', disk: 'Disk' }

export default function Machine() {
  const may = useRights()
  return (
    <>
      <Head title="Machine" text={<Version />} />
      <Parts />
      {may.ownAll ? <Figures /> : <p className="muted section">Figures of the whole service are for those who own all projects.</p>}
    </>
  )
}

/** The version changes only when another version of the service answers. */
function Version() {
  const { data } = useQuery({
    queryKey: ['version'],
    queryFn: async ({ signal }) => {
      const response = await bytes('getOpenapi', {}, { signal })
      return ((await response.json()) as { info: { version: string } }).info.version
    },
    staleTime: DAY_MS,
  })
  return <>What the service has, and what is left. {data && `Version ${data}.`}</>
}

function Parts() {
  const { data, error, isPending, refetch } = useCall('getStatus', {}, { everyMs: REFRESH_MS })
  if (isPending) return <Loading label="the state" />
  if (!data) return <ErrorNotice error={error} what="The state of the service" retry={() => void refetch()} isPolled />
  return (
    <section className="panel" aria-label="Parts of the service">
      <ul className="parts">
        {data.groups.flatMap(({ components }) =>
          components.map(({ name, status }) => (
            <li key={name}>
              <b>{NAMES[name] ?? name}</b> <StateOf state={status} />
            </li>
          )),
        )}
      </ul>
    </section>
  )
}

function Figures() {
  const limits = useCall('getOrgLimits', {}, { everyMs: REFRESH_MS })
  const metrics = useQuery({
    queryKey: ['getMetrics'],
    queryFn: async ({ signal }) => parseFigures(await (await bytes('getMetrics', {}, { signal })).text()),
    refetchInterval: REFRESH_MS,
  })
  const { data: seats } = limits
  const { data: figures } = metrics
  if (limits.isPending || metrics.isPending) return <Loading label="the figures" />
  if (!figures || !seats)
    return (
      <ErrorNotice error={metrics.error ?? limits.error} what="Figures of the service" retry={() => void Promise.all([metrics.refetch(), limits.refetch()])} />
    )
  const of = (name: string, labels?: Record<string, string>): number | undefined => sumOf(figures, name, labels)
  return (
    <>
      <div className="tiles section">
        <Tile
          title="Sessions"
          value={`${seats.concurrent_sessions_used} of ${seats.max_concurrent_sessions}`}
          part={seats.concurrent_sessions_used / seats.max_concurrent_sessions}
        >
          {seats.concurrent_sessions_available} more can begin
        </Tile>
        <Tile title="Warm browsers" value={of('cob_all_browsers', { state: 'warm' }) ?? 0}>
          {of('cob_warm_pool_wanted') ?? 0} wanted, {of('cob_boots_under_way') ?? 0} booting, {of('cob_warm_pool_waiting') ?? 0} callers wait
        </Tile>
        <Tile title="Disk" value={`${size(of('cob_disk_free_bytes') ?? 0)} free`} isBad={of('cob_disk_full') === 1}>
          {of('cob_disk_full') === 1 ? 'Full: nothing new is begun' : 'Room of the data directory'}
        </Tile>
        <Tile title="Memory" value={`${size(of('cob_memory_available_bytes') ?? 0)} free`}>
          What sessions and warm browsers can still take
        </Tile>
        <Tile title="Memory of the service" value={size(of('cob_process_resident_memory_bytes') ?? 0)}>
          up for {duration(upMs(figures))}, {Math.round(of('cob_process_cpu_seconds_total') ?? 0)} s of CPU time
        </Tile>
        <Tile title="WebSockets" value={of('cob_websockets') ?? 0}>
          open now
        </Tile>
        <Tile title="Failures" value={of('cob_http_failures_total') ?? 0}>
          answers of 500 and above, {of('cob_boots_failed_total') ?? 0} boots that failed
        </Tile>
      </div>
      <p className="muted section">All figures are at /metrics, for Prometheus.</p>
    </>
  )
}

function upMs(figures: Map<string, Figure[]>): number {
  const began = sumOf(figures, 'cob_process_start_time_seconds')
  return began === undefined ? 0 : Math.max(0, Date.now() - began * 1000)
}

interface TileProps {
  title: string
  value: ReactNode
  children: ReactNode
  /** The used part. */
  part?: number
  isBad?: boolean
}

const Tile = ({ title, value, children, part, isBad = false }: TileProps) => (
  <section className="panel figure" aria-label={title}>
    <h2>{title}</h2>
    <p className={isBad ? 'value problem' : 'value'}>{value}</p>
    {part !== undefined && <meter aria-label={`${title} in use`} min={0} max={1} high={0.85} optimum={0} value={Math.min(1, part)} />}
    <p className="muted">{children}</p>
  </section>
)
