// The destinations of exported telemetry and of the exported audit log.
import { NavLink, useParams } from 'react-router'
import type { ItemOf } from '../../api/contracts.ts'
import { useChange } from '../../api/queries.ts'
import { useRights } from '../../api/rights.ts'
import { Act } from '../../ui/act.tsx'
import { Button } from '../../ui/button.tsx'
import { examples } from '../../ui/code.tsx'
import { Empty } from '../../ui/empty.tsx'
import { FormDialog } from '../../ui/form.tsx'
import { List, type Column } from '../../ui/list.tsx'
import { Head } from '../../ui/page.tsx'
import { Remove } from '../../ui/remove.tsx'
import { Ago, Mono, Two } from '../../ui/show.tsx'
import { StateOf, words } from '../../ui/state-of.tsx'
import { done } from '../../ui/toasts.tsx'
import '../../ui/form.css'

type Collector = ItemOf<'listTelemetryDestinations'>
type Bucket = ItemOf<'listAuditLogExportDestinations'>

const REFRESH_MS = 10_000

interface Outcome {
  consecutive_failures: number
  last_error?: string | undefined
  last_error_at?: string | undefined
}

const Failures = ({ consecutive_failures: count, last_error: error, last_error_at: at }: Outcome) =>
  count === 0 ? (
    <span className="muted">none</span>
  ) : (
    <span className="main-cell problem">
      {count} in a row
      <small>
        {error && words(error)} <Ago at={at} />
      </small>
    </span>
  )

const collectorColumns = (mayOwn: boolean): Column<Collector>[] => [
  {
    title: 'Collector',
    cell: ({ name, description, id }) => <Two below={description ?? <Mono>{id}</Mono>}>{name}</Two>,
  },
  { title: 'Endpoint', isMinor: true, cell: ({ endpoint }) => <Mono>{endpoint}</Mono> },
  { title: 'Headers', isMinor: true, cell: ({ headers }) => <Mono>{Object.keys(headers).join(', ')}</Mono> },
  { title: 'Last export', isMinor: true, cell: ({ last_export_at: at }) => <Ago at={at} /> },
  { title: 'Failures', cell: (destination) => <Failures {...destination} /> },
  {
    title: 'Actions',
    cell: ({ id, name }) =>
      mayOwn && (
        <Remove
          call="deleteTelemetryDestination"
          input={{ params: { id_or_name: id } }}
          changes={['listTelemetryDestinations']}
          what="the collector"
          name={name}
          text="only one that no session uses can be deleted."
        />
      ),
  },
]

function NewCollector() {
  const create = useChange('createTelemetryDestination', ['listTelemetryDestinations'])
  return (
    <FormDialog
      title="New collector"
      trigger={<Button look="primary">New collector</Button>}
      fields={[
        { name: 'name', label: 'Name', isRequired: true },
        { name: 'endpoint', label: 'Endpoint', isRequired: true, placeholder: 'https://otel.example.com', hint: 'OTLP over HTTP, without /v1/logs.' },
        { name: 'description', label: 'Description' },
        { name: 'headers', label: 'Headers', kind: 'pairs', hint: 'One a line, as name=value. Values are stored encrypted and never shown again.' },
      ]}
      action="Create"
      send={async (body) => {
        await create.mutateAsync({ body: body as { name: string; endpoint: string } })
        done('Created')
      }}
    />
  )
}

function BucketActions({ bucket: { id, bucket, status } }: { bucket: Bucket }) {
  const test = useChange('testAuditLogExportDestination', ['listAuditLogExportDestinations'])
  const change = useChange('updateAuditLogExportDestination', ['listAuditLogExportDestinations'])
  const isActive = status === 'active'
  return (
    <span className="row-actions">
      <Act
        label={`Test ${bucket}`}
        busy="Testing…"
        failure="The test has failed"
        work={async () => {
          const { success, stage, error } = await test.mutateAsync({ params: { id } })
          if (!success) throw new Error(`At the step "${words(stage)}": ${error?.message ?? 'there is no reason.'}`)
          done('An object has been written')
        }}
      >
        Test
      </Act>
      <Act
        label={`${isActive ? 'Pause' : 'Start'} ${bucket}`}
        busy={isActive ? 'Pausing…' : 'Starting…'}
        failure="It has not been changed"
        work={async () => {
          await change.mutateAsync({ params: { id }, body: { status: isActive ? 'paused' : 'active' } })
          done(isActive ? 'Paused' : 'Started')
        }}
      >
        {isActive ? 'Pause' : 'Start'}
      </Act>
      <Remove
        call="deleteAuditLogExportDestination"
        input={{ params: { id } }}
        changes={['listAuditLogExportDestinations']}
        what="the bucket"
        name={bucket}
        text="objects that it has stay."
      />
    </span>
  )
}

const bucketColumns: Column<Bucket>[] = [
  {
    title: 'Bucket',
    cell: ({ bucket, prefix, region }) => <Two below={`${prefix || 'no prefix'} · ${region}`}>{bucket}</Two>,
  },
  { title: 'State', cell: ({ status }) => <StateOf state={status} /> },
  { title: 'Last success', isMinor: true, cell: ({ last_success_at: at }) => <Ago at={at} /> },
  { title: 'Failures', cell: (bucket) => <Failures {...bucket} /> },
  { title: 'Actions', cell: (bucket) => <BucketActions bucket={bucket} /> },
]

function NewBucket() {
  const create = useChange('createAuditLogExportDestination', ['listAuditLogExportDestinations'])
  return (
    <FormDialog
      title="New bucket for the audit log"
      trigger={<Button look="primary">New bucket</Button>}
      text={<p className="muted">It is paused until you start it, so that you can test it first.</p>}
      fields={[
        { name: 'bucket', label: 'Bucket', isRequired: true },
        { name: 'prefix', label: 'Prefix of the keys', sendsEmpty: true },
        { name: 'region', label: 'Region', isRequired: true, placeholder: 'eu-west-1' },
        {
          name: 'role_arn',
          label: 'Role',
          sendsEmpty: true,
          placeholder: 'arn:aws:iam::…:role/…',
          hint: 'Empty: the service writes with its own credentials.',
        },
        { name: 'kms_key_id', label: 'KMS key', hint: 'May be empty.' },
      ]}
      action="Create"
      send={async (body) => {
        await create.mutateAsync({ body: { type: 's3', format: 'jsonl.gz', ...body } as never })
        done('Created')
      }}
    />
  )
}

/** They are on separate pages, because each list has its own position in the address. */
const TABS = [
  ['', 'Telemetry'],
  ['audit-log', 'Audit log'],
] as const

export default function Exports() {
  const may = useRights()
  const { tab = '' } = useParams()
  const tabs = TABS.filter(([id]) => id === '' || may.ownAll)
  return (
    <>
      <Head title="Exports" text="Where telemetry of sessions and the audit log are sent.">
        {may.ownAll && (tab === 'audit-log' ? <NewBucket /> : <NewCollector />)}
      </Head>
      <nav className="tabs exports" aria-label="Of exports">
        {tabs.map(([id, title]) => (
          <NavLink
            key={id}
            className={id === tab ? 'tab active' : 'tab'}
            aria-current={id === tab ? 'page' : undefined}
            end
            to={id === '' ? '/exports' : `/exports/${id}`}
          >
            {title}
          </NavLink>
        ))}
      </nav>
      {tab === 'audit-log' ? (
        <List
          id="listAuditLogExportDestinations"
          label="Buckets"
          columns={bucketColumns}
          keyOf={({ id }) => id}
          everyMs={REFRESH_MS}
          empty={
            <Empty
              title="No buckets"
              text="The log is written to buckets of S3 as it grows. Without one, it can be downloaded on its page. An owner of all projects creates one here, or from a program:"
              examples={examples(
                `console.log(await kernel.post('/audit-logs/export/destinations', { body: { type: 's3', format: 'jsonl.gz', bucket: 'logs', prefix: '', region: 'eu-west-1', role_arn: '' } }))`,
                `print(kernel.post("/audit-logs/export/destinations", cast_to=object, body={"type": "s3", "format": "jsonl.gz", "bucket": "logs", "prefix": "", "region": "eu-west-1", "role_arn": ""}))`,
                `-H "Content-Type: application/json" -d '{"type": "s3", "format": "jsonl.gz", "bucket": "logs", "prefix": "", "region": "eu-west-1", "role_arn": ""}' $URL/audit-logs/export/destinations`,
              )}
            />
          }
        />
      ) : (
        <List
          id="listTelemetryDestinations"
          label="Collectors"
          columns={collectorColumns(may.ownAll)}
          keyOf={({ id }) => id}
          everyMs={REFRESH_MS}
          empty={
            <Empty
              title="No collectors"
              text="Sessions that name a collector for OTLP send their events to it. An owner of all projects creates one here, or from a program:"
              examples={examples(
                `console.log(await kernel.post('/telemetry/destinations', { body: { name: 'otel', endpoint: 'https://otel.example.com' } }))`,
                `print(kernel.post("/telemetry/destinations", cast_to=object, body={"name": "otel", "endpoint": "https://otel.example.com"}))`,
                `-H "Content-Type: application/json" -d '{"name": "otel", "endpoint": "https://otel.example.com"}' $URL/telemetry/destinations`,
              )}
            />
          }
        />
      )}
    </>
  )
}
