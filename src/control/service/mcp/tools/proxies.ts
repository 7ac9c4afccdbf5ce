// manage_proxies.
import { z } from 'zod'
import { fault } from '../../../../http/fault.ts'
import { CreateProxy, Protocol, proxies } from '../../../sessions/proxies/contract.ts'
import { jsonResult, textResult } from '../results.ts'
import { paging, tool } from '../tool.ts'

const text = z.string().min(1)

const AS_FIELDS = {
  protocol: 'custom_protocol',
  ...Object.fromEntries(['host', 'port', 'username', 'password'].map((name) => [`config.${name}`, `custom_${name}`])),
  ...Object.fromEntries(['country', 'state', 'city'].map((name) => [`config.${name}`, name])),
  url: 'check_url',
}

export const manageProxies = tool(
  {
    name: 'manage_proxies',
    toolset: 'proxies',
    asFields: AS_FIELDS,
    title: 'Manage proxies',
    description:
      'Manage the proxies that browser sessions can send their traffic through. "create" adds one: of a server of your own (type custom), or of the types that the operator of this service has set up. "check" tries one, with an address if you name it.',
    fields: {
      proxy_id: text.describe('Id of the proxy.'),
      type: z.enum(CreateProxy.options.map((option) => option.shape.type.value)).describe('Kind of the proxy.'),
      name: text.describe('Name of the proxy.'),
      country: text.describe('Code of the country, such as "US"; not for custom.'),
      state: text.describe('State; not for custom.'),
      city: text.describe('City without spaces, such as "sanfrancisco"; not for custom.'),
      custom_protocol: Protocol.describe('Protocol of a custom proxy. Default https.'),
      custom_host: text.describe('Host of a custom proxy.'),
      custom_port: z.int().min(1).max(65_535).describe('Port of a custom proxy.'),
      custom_username: text.describe('User at a custom proxy.'),
      custom_password: text.describe('Password at a custom proxy.'),
      check_url: text.describe('An address to fetch through the proxy.'),
      ...paging,
    },
  },
  (on) => ({
    create: on(
      {
        needs: ['type'],
        takes: ['name', 'country', 'state', 'city', 'custom_protocol', 'custom_host', 'custom_port', 'custom_username', 'custom_password'],
      },
      async ({ type, name, country, state, city, ...given }, api) => {
        const { custom_protocol, custom_host: host, custom_port: port, custom_username: username, custom_password: password } = given
        const [own, foreign] = type === 'custom' ? [given, { country, state, city }] : [{ country, state, city }, given]
        const wrong = Object.entries(foreign).find(([field, value]) => value !== undefined && field !== 'action')
        if (wrong) throw fault.field(wrong[0], `is not for proxies of type ${type}`)
        const config = type === 'custom' ? { host, port, username, password } : own
        if (type === 'custom')
          for (const field of ['custom_host', 'custom_port'] as const) if (given[field] === undefined) throw fault.field(field, 'is required for type custom')
        const isPlaced = Object.values(config).some((value) => value !== undefined)
        const body = { type, name, ...(type === 'custom' && { protocol: custom_protocol }), ...(isPlaced && { config }) }
        return jsonResult(await api.call(proxies.createProxy, { body: body as z.input<typeof CreateProxy> }))
      },
    ),
    list: on({ takes: ['limit', 'offset'] }, async ({ limit, offset }, api) => jsonResult(await api.call(proxies.listProxies, { query: { limit, offset } }))),
    get: on({ needs: ['proxy_id'] }, async ({ proxy_id }, api) => jsonResult(await api.call(proxies.getProxy, { params: { id_or_name: proxy_id } }))),
    rename: on({ needs: ['proxy_id', 'name'] }, async ({ proxy_id, name }, api) =>
      jsonResult(await api.call(proxies.updateProxy, { params: { id_or_name: proxy_id }, body: { name } })),
    ),
    check: on({ needs: ['proxy_id'], takes: ['check_url'] }, async ({ proxy_id, check_url: url }, api) =>
      jsonResult(await api.call(proxies.checkProxy, { params: { id_or_name: proxy_id }, body: { url } })),
    ),
    delete: on({ needs: ['proxy_id'] }, async ({ proxy_id }, api) => {
      await api.call(proxies.deleteProxy, { params: { id_or_name: proxy_id } })
      return textResult('The proxy is deleted.')
    }),
  }),
)
