// manage_browser_pools.
import { z } from 'zod'
import { fault } from '../../../../http/fault.ts'
import { AcquireBrowser, browserPools, CreatePool, MAX_WAIT_SECONDS, UpdatePool } from '../../../sessions/browser-pools/contract.ts'
import { jsonResult, textResult } from '../results.ts'
import { field, paging, tool } from '../tool.ts'
import { AS_FIELDS, browserFields, extensionsOf, profileOf, together, viewportOf } from './browser-options.ts'

const create = CreatePool.shape

const settings = [
  'name',
  'headless',
  'stealth',
  'kiosk_mode',
  'timeout_seconds',
  'fill_rate_per_minute',
  'start_url',
  'chrome_policy',
  'proxy_id',
  'profile_name',
  'profile_id',
  'extension_id',
  'extension_name',
  'viewport_width',
  'viewport_height',
  'viewport_refresh_rate',
] as const

interface Options {
  profile_name?: string | undefined
  profile_id?: string | undefined
  extension_id?: string | undefined
  extension_name?: string | undefined
  viewport_width?: number | undefined
  viewport_height?: number | undefined
  viewport_refresh_rate?: number | undefined
}

/** The flat fields as the API takes them, and the others as they are. */
function configOf(given: Options): object {
  const {
    profile_name: _n,
    profile_id: _i,
    extension_id: _e,
    extension_name: _x,
    viewport_width: _w,
    viewport_height: _h,
    viewport_refresh_rate: _r,
    ...rest
  } = given
  return { ...rest, ...profileOf(given), ...extensionsOf(given), ...viewportOf(given) }
}

export const manageBrowserPools = tool(
  {
    name: 'manage_browser_pools',
    toolset: 'browser_pools',
    asFields: AS_FIELDS,
    title: 'Manage pools of browsers',
    description:
      'Manage pools: browsers of one configuration that are kept ready. "acquire" takes one (it is then a browser session like others), "release" gives it back, "flush" ends the idle ones, so that new ones are made.',
    fields: {
      id_or_name: z.string().min(1).describe('Id or name of the pool.'),
      name: create.name.unwrap().describe('Name of the pool; of an acquired browser: the name of its session.'),
      size: field(create.size, 'How many browsers the pool has.'),
      headless: field(create.headless, 'The page fills the screen, without address bar and tabs.'),
      stealth: field(create.stealth, 'Look less like automated browsers.'),
      kiosk_mode: field(create.kiosk_mode, 'Hide address bar and tabs.'),
      timeout_seconds: field(create.timeout_seconds, 'An acquired browser ends after so many seconds without use. Default 600.'),
      fill_rate_per_minute: field(create.fill_rate_per_minute, 'How much of the pool is made again in a minute, in percent. Default 25.'),
      start_url: field(UpdatePool.shape.start_url, 'Page that its browsers open. In an update an empty one clears it.'),
      chrome_policy: field(create.chrome_policy, 'Enterprise policies of Chrome. In an update {} clears them.'),
      proxy_id: z.string().max(255).describe('Id of the proxy for its browsers. In an update an empty one clears it.'),
      ...browserFields,
      clear_profile: z.boolean().describe('true takes the profile away.'),
      clear_extensions: z.boolean().describe('true takes all extensions away.'),
      discard_all_idle: z.boolean().describe('Make idle browsers anew at once.'),
      force: z.boolean().describe('Delete it although browsers of it are in use; they end.'),
      acquire_timeout_seconds: field(AcquireBrowser.shape.acquire_timeout_seconds, `How long to wait for a browser, at most ${MAX_WAIT_SECONDS} seconds.`),
      session_id: z.string().min(1).describe('Id of the session to give back.'),
      reuse: z.boolean().describe('false: the browser ends, and another one is made. Default true.'),
      ...paging,
    },
  },
  (on) => ({
    create: on({ needs: ['size'], takes: [...settings] }, async (given, api) => {
      const body = withoutAction(given)
      const pool = await api.call(browserPools.createBrowserPool, { body: configOf(body) as z.input<typeof CreatePool> })
      return jsonResult({
        browser_pool: pool,
        next_actions: [`Use manage_browser_pools with action "acquire" and id_or_name "${pool.id}" to take a browser of it.`],
      })
    }),
    update: on({ needs: ['id_or_name'], takes: ['size', ...settings, 'clear_profile', 'clear_extensions', 'discard_all_idle'] }, async (given, api) => {
      const { id_or_name, clear_profile, clear_extensions, ...body } = withoutAction(given)
      if (clear_profile && (body.profile_id ?? body.profile_name) !== undefined) throw together('clear_profile', 'profile_id or profile_name')
      if (clear_extensions && (body.extension_id ?? body.extension_name) !== undefined) throw together('clear_extensions', 'extension_id or extension_name')
      const cleared = { ...(clear_profile && { profile: { id: '' } }), ...(clear_extensions && { extensions: [] }) }
      const pool = await api.call(browserPools.updateBrowserPool, {
        params: { id_or_name },
        body: { ...configOf(body), ...cleared } as z.input<typeof UpdatePool>,
      })
      return jsonResult({ browser_pool: pool })
    }),
    list: on({ takes: ['limit', 'offset'] }, async ({ limit, offset }, api) =>
      jsonResult(await api.call(browserPools.listBrowserPools, { query: { limit, offset } })),
    ),
    get: on({ needs: ['id_or_name'] }, async ({ id_or_name }, api) => jsonResult(await api.call(browserPools.getBrowserPool, { params: { id_or_name } }))),
    delete: on({ needs: ['id_or_name'], takes: ['force'] }, async ({ id_or_name, force }, api) => {
      await api.call(browserPools.deleteBrowserPool, { params: { id_or_name }, body: { force } })
      return textResult('The pool is deleted.')
    }),
    flush: on({ needs: ['id_or_name'] }, async ({ id_or_name }, api) => {
      await api.call(browserPools.flushBrowserPool, { params: { id_or_name } })
      return textResult('The idle browsers of the pool are ended.')
    }),
    acquire: on({ needs: ['id_or_name'], takes: ['acquire_timeout_seconds', 'name', 'start_url'] }, async (given, api) => {
      const { id_or_name, acquire_timeout_seconds, name, start_url } = given
      const body = { acquire_timeout_seconds, name, start_url } as z.input<typeof AcquireBrowser>
      const browser = await api.call(browserPools.acquireBrowser, { params: { id_or_name }, body })
      if (browser === undefined) throw fault.unavailable('no browser of the pool became free in time; try again')
      return jsonResult({
        browser,
        next_actions: [`Use manage_browser_pools with action "release", id_or_name "${id_or_name}" and session_id "${browser.session_id}" to give it back.`],
      })
    }),
    release: on({ needs: ['id_or_name', 'session_id'], takes: ['reuse'] }, async ({ id_or_name, session_id, reuse }, api) => {
      await api.call(browserPools.releaseBrowser, { params: { id_or_name }, body: { session_id, reuse } })
      return textResult('The browser is given back.')
    }),
  }),
)

const withoutAction = <G extends object>(given: G): Omit<G, 'action'> => {
  const { action: _, ...rest } = given as G & { action?: unknown }
  return rest
}
