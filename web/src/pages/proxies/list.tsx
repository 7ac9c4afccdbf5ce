// Proxies of a project: list, create, check.
import type { ItemOf } from '../../api/contracts.ts'
import { useChange } from '../../api/queries.ts'
import { useRights } from '../../api/rights.ts'
import { Act } from '../../ui/act.tsx'
import { Button } from '../../ui/button.tsx'
import { examples } from '../../ui/code.tsx'
import { Empty } from '../../ui/empty.tsx'
import { FormDialog } from '../../ui/form.tsx'
import type { Body, FieldSpec, Values } from '../../ui/form-values.ts'
import { BY_NAME, List, type Column } from '../../ui/list.tsx'
import { Head } from '../../ui/page.tsx'
import { Remove } from '../../ui/remove.tsx'
import { Ago, Mono, Named } from '../../ui/show.tsx'
import { StateOf } from '../../ui/state-of.tsx'
import { done } from '../../ui/toasts.tsx'

type Proxy = ItemOf<'listProxies'>

const nameOf = ({ name, id }: Proxy): string => name ?? id

const is =
  (...types: string[]) =>
  ({ type }: Values): boolean =>
    types.includes(type as string)
const isPlaced = is('residential', 'mobile')

const FIELDS: FieldSpec[] = [
  { name: 'name', label: 'Name', hint: 'May be empty.' },
  {
    name: 'type',
    label: 'Type',
    kind: 'choice',
    options: [
      ['custom', 'A server of your own'],
      ['datacenter', 'Datacenter'],
      ['isp', 'ISP'],
      ['residential', 'Residential'],
      ['mobile', 'Mobile'],
    ],
  },
  {
    name: 'protocol',
    label: 'Protocol',
    kind: 'choice',
    options: [
      ['http', 'HTTP'],
      ['https', 'HTTPS: the connection to the proxy is encrypted'],
      ['socks5', 'SOCKS5'],
    ],
    when: is('custom'),
  },
  { name: 'config.host', label: 'Host', isRequired: true, placeholder: 'proxy.example.com', when: is('custom') },
  { name: 'config.port', label: 'Port', kind: 'number', isRequired: true, when: is('custom') },
  { name: 'config.username', label: 'User name', when: is('custom') },
  { name: 'config.password', label: 'Password', kind: 'password', hint: 'It is stored encrypted and never shown again.', when: is('custom') },
  { name: 'config.country', label: 'Country', placeholder: 'US', hint: 'Two letters. May be empty.', when: (values) => !is('custom')(values) },
  { name: 'config.state', label: 'State', when: isPlaced },
  { name: 'config.city', label: 'City', when: isPlaced },
  { name: 'config.zip', label: 'Zip code', when: is('residential') },
  { name: 'config.asn', label: 'Network (ASN)', when: is('residential') },
  { name: 'bypass_hosts', label: 'Reached without it', kind: 'lines', hint: 'A host a line; *.example.com for all below one.' },
]

function NewProxy() {
  const create = useChange('createProxy', ['listProxies'])
  return (
    <FormDialog
      title="New proxy"
      trigger={<Button look="primary">New proxy</Button>}
      fields={FIELDS}
      action="Create"
      send={async (body: Body) => {
        await create.mutateAsync({ body: body as { type: 'datacenter' } })
        done('Created')
      }}
    />
  )
}

function Rename({ proxy }: { proxy: Proxy }) {
  const change = useChange('updateProxy', ['listProxies'])
  return (
    <FormDialog
      title="Rename the proxy"
      trigger={
        <Button look="quiet" aria-label={`Rename ${nameOf(proxy)}`}>
          Rename
        </Button>
      }
      fields={[{ name: 'name', label: 'Name', initial: proxy.name ?? '', isRequired: true }]}
      action="Save"
      send={async (body) => {
        await change.mutateAsync({ params: { id_or_name: proxy.id }, body: body as { name: string } })
        done('Saved')
      }}
    />
  )
}

function Check({ proxy }: { proxy: Proxy }) {
  const check = useChange('checkProxy', ['listProxies'])
  return (
    <Act
      label={`Check ${nameOf(proxy)}`}
      busy="Checking…"
      failure="It does not work"
      work={async () => {
        const { status, status_reason: reason, ip_address: ip } = await check.mutateAsync({ params: { id_or_name: proxy.id } })
        if (status !== 'available') throw new Error(reason ?? 'The check has given no reason.')
        done(`It works${ip ? `: pages see ${ip}` : ''}`)
      }}
    >
      Check
    </Act>
  )
}

const whereOf = ({ type, config: { host, port, country, state, city } }: Proxy): string =>
  host !== undefined ? `${host}:${port ?? ''}` : [type, country, state, city].filter(Boolean).join(' · ')

const columns = (mayUse: boolean): Column<Proxy>[] => [
  { title: 'Proxy', cell: ({ id, name }) => <Named id={id} name={name} /> },
  { title: 'Where', cell: (proxy) => <Mono>{`${proxy.protocol} ${whereOf(proxy)}`}</Mono> },
  {
    title: 'State',
    cell: ({ status, last_checked: at, ip_address: ip }) =>
      status === undefined ? (
        <span className="muted">not checked</span>
      ) : (
        <span className="main-cell">
          <StateOf state={status} />
          <small>
            {ip} <Ago at={at} />
          </small>
        </span>
      ),
  },
  { title: 'Login', isMinor: true, cell: ({ config: { username, has_password: has } }) => username && `${username}${has ? ', with a password' : ''}` },
  {
    title: 'Actions',
    cell: (proxy) =>
      mayUse && (
        <span className="row-actions">
          <Check proxy={proxy} />
          <Rename proxy={proxy} />
          <Remove
            call="deleteProxy"
            input={{ params: { id_or_name: proxy.id } }}
            changes={['listProxies']}
            what="the proxy"
            name={nameOf(proxy)}
            text="sessions that use it keep it until they end."
          />
        </span>
      ),
  },
]

export default function Proxies() {
  const may = useRights()
  return (
    <>
      <Head title="Proxies" text="Ways out to the web that sessions can be given.">
        {may.use && <NewProxy />}
      </Head>
      <List
        id="listProxies"
        label="Proxies"
        filters={BY_NAME}
        columns={columns(may.use)}
        keyOf={({ id }) => id}
        empty={
          <Empty
            title="No proxies"
            text="A session with a proxy reaches the web through it. Create one here, or from a program:"
            examples={examples(
              `const proxy = await kernel.proxies.create({ type: 'custom', name: 'office', protocol: 'http', config: { host: 'proxy.example.com', port: 3128 } })\nconsole.log(proxy.id)`,
              `proxy = kernel.proxies.create(type="custom", name="office", protocol="http", config={"host": "proxy.example.com", "port": 3128})\nprint(proxy.id)`,
              `-H "Content-Type: application/json" -d '{"type": "custom", "name": "office", "protocol": "http", "config": {"host": "proxy.example.com", "port": 3128}}' $URL/proxies`,
            )}
          />
        }
      />
    </>
  )
}
