// The contract of the Proxies group, and the options of browsers that name a proxy.
import * as z from 'zod'
import { isIPv4, isIPv6, isName } from '../../../base/hosts.ts'
import { isId } from '../../../base/ids.ts'
import { json, nameQuery, none, page, pagingQuery, route } from '../../../http/route.ts'
import { Time } from '../../apps/apps/contract.ts'
import { option } from '../browsers/options/option/contract.ts'

const group = 'Proxies'

const MAX_NAME = 255
/** Not unique. Spaces at the ends are removed. */
const Name = z
  .string()
  .trim()
  .min(1)
  .refine((name) => Array.from(name).length <= MAX_NAME, `must have at most ${MAX_NAME} characters`)
  .refine((name) => !/\p{Cc}/u.test(name), 'must have no control characters')
  .refine((name) => !isId(name.toLowerCase()), 'must not look like an id (24 letters and digits)')

/** `socks5` is Cob's own. */
export const Protocol = z.enum(['http', 'https', 'socks5'])

const MAX_BYPASS_HOSTS = 100
/** Hosts that are reached without the proxy: a name, or `*.` and a name for all names below it. */
const BypassHosts = z
  .array(
    z
      .string()
      .max(253)
      .transform((host) => host.toLowerCase())
      .refine((host) => isName(host.replace(/^\*\./, '')), 'must be a host name, or "*." and one, without scheme, port, path or IP address'),
  )
  .max(MAX_BYPASS_HOSTS)
  .transform((hosts) => [...new Set(hosts)])

const Host = z.string().refine((host) => isName(host) || isIPv4(host) || isIPv6(host), 'must be a host name or an IP address, without scheme, port or path')

/** Limit on the login that each protocol allows (RFC 7617, RFC 1929). */
const MAX_LOGIN = 1024
const MAX_SOCKS_LOGIN_BYTES = 255
const Login = z
  .string()
  .max(MAX_LOGIN)
  .refine((text) => !/\p{Cc}/u.test(text), 'must have no control characters')

const MAX_CA_BUNDLE_BYTES = 64 * 1024

const Custom = z.strictObject({
  host: Host,
  port: z.int().min(1).max(65_535),
  username: Login.min(1).optional(),
  password: Login.min(5).optional(),
  /** Certificates of authorities in PEM. They sign the proxy's own certificate, or the ones that the proxy presents for https sites. */
  ca_bundle: z
    .string()
    .refine((pem) => new TextEncoder().encode(pem).length <= MAX_CA_BUNDLE_BYTES, `must have at most ${MAX_CA_BUNDLE_BYTES} bytes`)
    .optional(),
})

const Country = z.string().regex(/^[A-Za-z]{2}$/, 'must be a country code of two letters (ISO 3166)')
/** It becomes part of a user name with a fixed form. */
const Area = z.string().regex(/^[A-Za-z0-9_]{1,100}$/, 'must be letters, digits and "_", without spaces, such as "sanfrancisco"')
const country = Country.optional()
const state = Area.optional()
const city = Area.optional()

const Residential = z
  .strictObject({
    country,
    state,
    city,
    zip: z
      .string()
      .regex(/^\d{5}$/, 'must be five digits')
      .optional(),
    asn: z
      .string()
      .regex(/^(AS)?\d{1,10}$/i, 'must be a number, such as "7922" or "AS7922"')
      .optional(),
    /** Deprecated. */
    os: z.enum(['windows', 'macos', 'android']).optional(),
  })
  .superRefine((config, context) => {
    const refuse = (field: string, message: string) => context.addIssue({ code: 'custom', path: [field], message })
    const isPlaced = config.city !== undefined || config.state !== undefined
    if (config.city !== undefined && config.country === undefined) refuse('country', 'must be given with city')
    if (config.zip !== undefined && isPlaced) refuse('zip', 'cannot be given together with city or state')
    if (config.zip !== undefined && config.country !== undefined && config.country.toUpperCase() !== 'US') refuse('zip', 'is for the country US only')
    if (config.asn !== undefined && isPlaced) refuse('asn', 'cannot be given together with city or state')
  })

const Mobile = z
  .strictObject({ country, state, city })
  .refine((config) => config.country !== undefined || (config.city === undefined && config.state === undefined), {
    path: ['country'],
    error: 'must be given with city or state',
  })

const common = {
  name: Name.optional(),
  /** Hosts that are reached without the proxy. */
  bypass_hosts: BypassHosts.optional(),
}
/** The operator's server (COB_PROXY_…), which also sets the protocol. */
const provided = { ...common, protocol: Protocol.optional() }
const OfCountry = z.strictObject({ country })

const CreateCustom = z
  .strictObject({ type: z.literal('custom'), ...common, protocol: Protocol.default('https'), config: Custom })
  .superRefine(({ protocol, config: { username, password } }, context) => {
    const refuse = (field: string, message: string) => context.addIssue({ code: 'custom', path: ['config', field], message })
    if (protocol !== 'socks5') {
      if (username?.includes(':')) refuse('username', 'must not have ":": HTTP has no way to send it')
      return
    }
    if (username !== undefined && password === undefined) refuse('password', 'must be given with username for socks5')
    if (password !== undefined && username === undefined) refuse('username', 'must be given with password for socks5')
    for (const [field, text] of Object.entries({ username, password }))
      if (text !== undefined && new TextEncoder().encode(text).length > MAX_SOCKS_LOGIN_BYTES)
        refuse(field, `must have at most ${MAX_SOCKS_LOGIN_BYTES} bytes for socks5`)
  })

const TYPES = ['custom', 'datacenter', 'isp', 'residential', 'mobile'] as const

export const CreateProxy = z.discriminatedUnion(
  'type',
  [
    CreateCustom,
    z.strictObject({ type: z.literal('datacenter'), ...provided, config: OfCountry.optional() }),
    z.strictObject({ type: z.literal('isp'), ...provided, config: OfCountry.optional() }),
    z.strictObject({ type: z.literal('residential'), ...provided, config: Residential.optional() }),
    z.strictObject({ type: z.literal('mobile'), ...provided, config: Mobile.optional() }),
  ],
  { error: (issue) => (issue.code === 'invalid_union' ? `expected one of ${TYPES.join(', ')}` : undefined) },
)
export type CreateProxy = z.output<typeof CreateProxy>

export const Proxy = z.object({
  id: z.string(),
  name: z.string().optional(),
  type: z.enum(TYPES),
  protocol: Protocol,
  /** Without passwords and certificates. */
  config: z.object({
    host: z.string().optional(),
    port: z.int().optional(),
    username: z.string().optional(),
    has_password: z.boolean().optional(),
    has_ca_bundle: z.boolean().optional(),
    country: z.string().optional(),
    state: z.string().optional(),
    city: z.string().optional(),
    zip: z.string().optional(),
    asn: z.string().optional(),
    os: z.enum(['windows', 'macos', 'android']).optional(),
  }),
  bypass_hosts: z.array(z.string()),
  /** Result of the last check; absent before the first one. */
  status: z.enum(['available', 'unavailable']).optional(),
  /** Why it is unavailable: in the answer to a check only. */
  status_reason: z.string().optional(),
  /** The client address that the page of the last check reported. */
  ip_address: z.string().optional(),
  last_checked: Time.optional(),
})
export type Proxy = z.output<typeof Proxy>

const params = z.strictObject({ id_or_name: z.string().min(1) })

export const proxies = {
  createProxy: route({
    method: 'POST',
    path: '/proxies',
    id: 'createProxy',
    group,
    summary: 'Create a proxy',
    body: CreateProxy,
    reply: json(Proxy, 201),
  }),
  listProxies: route({
    method: 'GET',
    path: '/proxies',
    id: 'listProxies',
    group,
    summary: 'List proxies, newest first',
    query: z.strictObject({
      ...pagingQuery,
      ...nameQuery,
    }),
    reply: page(Proxy),
  }),
  getProxy: route({
    method: 'GET',
    path: '/proxies/{id_or_name}',
    id: 'getProxy',
    group,
    summary: 'Get a proxy',
    params,
    reply: json(Proxy),
    faults: ['not_found'],
  }),
  updateProxy: route({
    method: 'PATCH',
    path: '/proxies/{id_or_name}',
    id: 'updateProxy',
    group,
    summary: 'Rename a proxy',
    params,
    body: z.strictObject({ name: Name }),
    reply: json(Proxy),
    faults: ['not_found'],
  }),
  deleteProxy: route({
    method: 'DELETE',
    path: '/proxies/{id_or_name}',
    id: 'deleteProxy',
    group,
    summary: 'Delete a proxy; sessions that use it keep it',
    params,
    reply: none(),
    faults: ['not_found'],
  }),
  checkProxy: route({
    method: 'POST',
    path: '/proxies/{id_or_name}/check',
    id: 'checkProxy',
    group,
    summary: 'Try a proxy now',
    params,
    body: z.strictObject({
      /** A page to fetch through the proxy. With it, the stored status does not change. */
      url: z
        .string()
        .max(2048)
        .refine((text) => {
          const url = URL.canParse(text) ? new URL(text) : undefined
          return url !== undefined && /^https?:$/.test(url.protocol) && !url.username && !url.password
        }, 'must be an http or https URL without a user and password')
        .optional(),
    }),
    bodyOptional: true,
    reply: json(Proxy),
    faults: ['not_found', 'too_many_requests'],
  }),
}

/** One route: a proxy by id or name, none (`direct`), or the default (`default`), which is none, too. */
const Choice = z
  .strictObject({ id: z.string().min(1).max(255).optional(), name: z.string().min(1).max(255).optional(), mode: z.enum(['direct', 'default']).optional() })
  .refine((choice) => Object.values(choice).filter((value) => value !== undefined).length === 1, 'must have exactly one of id, name and mode')

/** A session's proxy. The row has its id (references.ts), whichever of these fields named it. */
export const proxyOptions = {
  proxy: option({
    create: Choice.optional(),
    update: Choice.optional(),
    reply: { schema: z.object({ id: z.string() }).optional(), of: 'proxy_id', show: (id: string | undefined) => (id === undefined ? undefined : { id }) },
  }),
  /** Deprecated. Empty: none. */
  proxy_id: option({
    create: z.string().max(255).optional(),
    update: z.string().max(255).optional(),
    store: (id) => id || undefined,
    restore: (id) => id || undefined,
    fit: (id) => (id ? { proxy: { on: true } } : {}),
    refit: (id) => ({ proxy: { on: id !== undefined && id !== '' } }),
    reply: { schema: z.string().optional(), show: (id) => id },
  }),
  /** Deprecated. There is no default proxy, so both values describe every session. */
  disable_default_proxy: option({ update: z.boolean().optional() }),
}

interface Given {
  proxy?: unknown
  proxy_id?: string | undefined
  disable_default_proxy?: boolean | undefined
}

/** Refuses a body with contradicting proxy fields. */
export function oneWayOut({ proxy, proxy_id, disable_default_proxy }: Given, context: z.core.$RefinementCtx): void {
  const refuse = (field: string, other: string) =>
    context.addIssue({ code: 'custom', path: [field], message: `cannot be given together with ${other}`, input: undefined })
  if (proxy !== undefined && proxy_id !== undefined) refuse('proxy', 'proxy_id')
  if (proxy !== undefined && disable_default_proxy !== undefined) refuse('proxy', 'disable_default_proxy')
  if (proxy_id && disable_default_proxy) refuse('disable_default_proxy', 'proxy_id')
}
