// The form of a browser pool, for creating and for changing it.
import type { ItemOf } from '../../api/contracts.ts'
import { useChoices } from '../../ui/choices.ts'
import type { Body, FieldSpec } from '../../ui/form-values.ts'

export type Pool = ItemOf<'listBrowserPools'>

export const nameOf = ({ name, id }: Pool): string => name ?? id

/** A change also sends empty fields, which clear the pool's values. */
export function usePoolFields(pool?: Pool): FieldSpec[] {
  const config = pool?.browser_pool_config
  const profiles = useChoices('listProfiles', 'None', ({ id, name }) => [id, name ?? id])
  const proxies = useChoices('listProxies', 'None', ({ id, name }) => [id, name ?? id])
  const clears = pool !== undefined
  const isOn = (value: boolean | undefined): string => (value ? 'true' : '')
  return [
    { name: 'name', label: 'Name', initial: config?.name ?? '', hint: 'May be empty; programs can use it in place of the id.' },
    { name: 'size', label: 'Browsers', kind: 'number', isRequired: true, initial: String(config?.size ?? 1), hint: 'How many are kept, lent ones included.' },
    {
      name: 'fill_rate_per_minute',
      label: 'Made again in a minute, in percent',
      kind: 'number',
      initial: String(config?.fill_rate_per_minute ?? 25),
      isRequired: true,
    },
    {
      name: 'timeout_seconds',
      label: 'A lent browser ends after so many idle seconds',
      kind: 'number',
      initial: String(config?.timeout_seconds ?? 600),
      isRequired: true,
    },
    { name: 'start_url', label: 'Start page', initial: config?.start_url ?? '', placeholder: 'https://…', sendsEmpty: clears },
    {
      name: 'viewport.width',
      label: 'Width of the screen',
      kind: 'number',
      initial: String(config?.viewport?.width ?? ''),
      hint: clears ? 'Empty: it stays as it is.' : 'Empty: 1920 × 1080.',
    },
    { name: 'viewport.height', label: 'Height of the screen', kind: 'number', initial: String(config?.viewport?.height ?? '') },
    { name: 'profile.id', label: 'Profile', kind: 'choice', options: profiles, initial: config?.profile?.id ?? pool?.profile_id ?? '', sendsEmpty: clears },
    { name: 'proxy_id', label: 'Proxy', kind: 'choice', options: proxies, initial: config?.proxy?.id ?? config?.proxy_id ?? '', sendsEmpty: clears },
    {
      name: 'extensions',
      label: 'Extensions',
      kind: 'lines',
      rows: 2,
      initial: (config?.extensions ?? []).map(({ name, id }) => name ?? id).join('\n'),
      hint: 'A name or an id a line.',
      sendsEmpty: clears,
    },
    {
      name: 'chrome_policy',
      label: 'Policies of Chromium',
      kind: 'json',
      rows: 2,
      initial: config?.chrome_policy ? JSON.stringify(config.chrome_policy) : '',
      hint: 'JSON. May be empty.',
      // A policy that is too long to be shown stays unchanged.
      sendsEmpty: config?.chrome_policy !== undefined,
    },
    {
      name: 'network.allowed_hosts',
      label: 'Reaches only these hosts',
      kind: 'lines',
      rows: 2,
      initial: (config?.network?.allowed_hosts ?? []).join('\n'),
      hint: 'One a line, such as example.com or *.example.com. Empty: all.',
      sendsEmpty: true,
    },
    {
      name: 'network.private_hosts',
      label: 'Reaches these without a proxy',
      kind: 'lines',
      rows: 2,
      initial: (config?.network?.private_hosts ?? []).join('\n'),
      hint: 'Hosts or private addresses, one a line. May be empty.',
      sendsEmpty: true,
    },
    { name: 'headless', label: 'Headless', kind: 'switch', initial: isOn(config?.headless) },
    { name: 'stealth', label: 'Stealth', kind: 'switch', initial: isOn(config?.stealth) },
    { name: 'kiosk_mode', label: 'Kiosk', kind: 'switch', initial: isOn(config?.kiosk_mode), hint: 'Full screen, without bars of the browser.' },
    ...(pool
      ? [
          {
            name: 'discard_all_idle',
            label: 'Make idle browsers anew now',
            kind: 'switch' as const,
            hint: 'Otherwise they keep what they were made with until they end.',
          },
        ]
      : []),
  ]
}

const ID = /^[a-z0-9]{24}$/

interface Lists {
  allowed_hosts: string[]
  private_hosts: string[]
}

/** The network part of a body. It is replaced as a whole, so keep the fields that the form does not show. Undefined when nothing changes. */
function networkOf(given: Lists, pool: Pool | undefined): object | undefined {
  const { allowed_hosts: allowed = [], private_hosts: direct = [], ...others } = pool?.browser_pool_config.network ?? {}
  if (JSON.stringify([given.allowed_hosts, given.private_hosts]) === JSON.stringify([allowed, direct])) return undefined
  return {
    ...others,
    ...(given.allowed_hosts.length > 0 && { allowed_hosts: given.allowed_hosts }),
    ...(given.private_hosts.length > 0 && { private_hosts: given.private_hosts }),
  }
}

/** The body of a call, with the types of the form. `pool` is the pool to change. */
export function bodyOfPool({ extensions, network: given, ...body }: Body, pool?: Pool) {
  const network = networkOf(given as Lists, pool)
  return {
    ...body,
    ...(network && { network }),
    ...(Array.isArray(extensions) && { extensions: extensions.map((each: string) => (ID.test(each) ? { id: each } : { name: each })) }),
  } as unknown as {
    size: number
  }
}
