// API keys: creates and rotates them. A key itself is shown only once.
import { useState } from 'react'
import type { AnswerOf, ItemOf } from '../../api/contracts.ts'
import { useChange } from '../../api/queries.ts'
import { useRights } from '../../api/rights.ts'
import { useMe } from '../../api/sign-in.ts'
import { Button, RowButton } from '../../ui/button.tsx'
import { useProjectChoices } from '../../ui/choices.ts'
import { Copy } from '../../ui/code.tsx'
import { Dialog } from '../../ui/confirm.tsx'
import { Form } from '../../ui/form.tsx'
import { List, type Column, type Filter } from '../../ui/list.tsx'
import { Head } from '../../ui/page.tsx'
import { Remove } from '../../ui/remove.tsx'
import { Ago, Mono, State, Two } from '../../ui/show.tsx'

type Key = ItemOf<'listApiKeys'>
type Created = AnswerOf<'createApiKey'>

const FILTERS: Filter[] = [
  {
    kind: 'choice',
    name: 'status',
    label: 'State',
    options: [
      ['active', 'Not deleted'],
      ['deleted', 'Deleted'],
      ['all', 'All'],
    ],
  },
  { kind: 'search', name: 'query', label: 'Search by name, project, creator or beginning' },
  {
    kind: 'choice',
    name: 'sort_by',
    label: 'Order',
    options: [
      ['created_at', 'Newest first'],
      ['name', 'By name'],
      ['expires_at', 'By expiry'],
    ],
  },
]

/** No other page shows the key, and it is gone when the dialog closes. */
const ShownOnce = ({ created, close }: { created: Created; close: () => void }) => (
  <>
    <p>Copy the key now: it is shown only here, and nobody can show it again.</p>
    <p className="secret-once">
      <code>{created.key}</code>
      <Copy text={created.key}>Copy the key</Copy>
    </p>
    <div className="buttons">
      <Button look="primary" onPress={close} autoFocus>
        Done
      </Button>
    </div>
  </>
)

function NewKey() {
  const projects = useProjectChoices()
  const create = useChange('createApiKey', ['listApiKeys'])
  return (
    <Dialog title="New API key" trigger={<Button look="primary">New key</Button>}>
      {(close) => (
        <Once
          close={close}
          action="Create"
          fields={[
            { name: 'name', label: 'Name', isRequired: true },
            { name: 'project_id', label: 'Project', kind: 'choice' as const, options: projects },
            { name: 'days_to_expire', label: 'Expires after so many days', kind: 'number' as const, hint: 'Empty: never.' },
          ]}
          send={(body) => create.mutateAsync({ body: body as { name: string } })}
        />
      )}
    </Dialog>
  )
}

function Once({
  close,
  send,
  ...form
}: { close: () => void; send: (body: Record<string, unknown>) => Promise<Created> } & Pick<Parameters<typeof Form>[0], 'fields' | 'action' | 'text'>) {
  const [created, show] = useState<Created>()
  if (created) return <ShownOnce created={created} close={close} />
  return <Form {...form} onCancel={close} send={async (body) => show(await send(body))} />
}

function Rotate({ apiKey: { id, name } }: { apiKey: Key }) {
  const rotate = useChange('rotateApiKey', ['listApiKeys'])
  return (
    <Dialog title={`Rotate ${name}`} trigger={<RowButton label={`Rotate ${name}`}>Rotate</RowButton>}>
      {(close) => (
        <Once
          close={close}
          action="Rotate"
          text={<p className="muted">A new key with the same name and project is made. The old one goes on for a while, so that programs can change over.</p>}
          fields={[
            { name: 'expire_in_days', label: 'The old key expires after so many days', kind: 'number', initial: '7', isRequired: true, hint: '0: now.' },
          ]}
          send={(body) => rotate.mutateAsync({ params: { id }, body })}
        />
      )}
    </Dialog>
  )
}

function StateOfKey({ deleted_at: deleted, expires_at: expires }: Key) {
  if (deleted !== null) return <State kind="off">Deleted</State>
  if (expires === null) return <State kind="good">Never expires</State>
  const hasExpired = Date.parse(expires) <= Date.now()
  return (
    <State kind={hasExpired ? 'bad' : 'good'}>
      {hasExpired ? 'Expired' : 'Expires'} <Ago at={expires} />
    </State>
  )
}

const columns = (mayOwn: boolean, ownId: string | undefined): Column<Key>[] => [
  {
    title: 'Key',
    cell: ({ name, masked_key: masked }) => <Two below={<Mono>{masked}</Mono>}>{name}</Two>,
  },
  { title: 'Project', cell: ({ project_name: project, project_id: id }) => project ?? id ?? 'all' },
  { title: 'State', cell: (key) => <StateOfKey {...key} /> },
  { title: 'Made by', isMinor: true, cell: ({ created_by: by }) => by.name ?? by.email },
  { title: 'Created', isMinor: true, cell: ({ created_at: at }) => <Ago at={at} /> },
  {
    title: 'Actions',
    cell: (key) =>
      key.deleted_at === null &&
      mayOwn && (
        <span className="row-actions">
          <Rotate apiKey={key} />
          {/* A key cannot delete itself. */}
          {key.id === ownId ? (
            <span className="muted">signed in with it</span>
          ) : (
            <Remove
              call="deleteApiKey"
              input={{ params: { id: key.id } }}
              changes={['listApiKeys']}
              what="the key"
              name={key.name}
              text="programs that use it are refused at once, and what it has begun ends."
            />
          )}
        </span>
      ),
  },
]

export default function Keys() {
  const may = useRights()
  const me = useMe().data
  const ownId = me?.principal.type === 'api_key' ? me.principal.id : undefined
  return (
    <>
      <Head title="API keys" text="What programs sign in with.">
        {may.own && <NewKey />}
      </Head>
      <List
        id="listApiKeys"
        label="API keys"
        filters={FILTERS}
        columns={columns(may.own, ownId)}
        keyOf={({ id }) => id}
        empty={<p className="muted">No keys.</p>}
      />
    </>
  )
}
