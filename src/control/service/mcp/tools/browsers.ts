// manage_browsers: sessions and their telemetry.
import { z } from 'zod'
import { browsers, CreateBrowser, Tags, UpdateBrowser } from '../../../sessions/browsers/contract.ts'
import { Region } from '../../../sessions/browsers/options/option/contract.ts'
import { jsonResult, textResult } from '../results.ts'
import { field, paging, tool } from '../tool.ts'
import { AS_FIELDS, browserFields, extensionsOf, profileOf, telemetryOf, together, viewportOf } from './browser-options.ts'
import { readTelemetry, telemetryFields } from './browser-telemetry.ts'

const create = CreateBrowser.shape

const nextActions = (id: string) => [
  `Use computer_action with session_id "${id}" to see and control the browser.`,
  `Use execute_playwright_code with session_id "${id}" to drive its pages by code.`,
  `Use manage_browsers with action "delete" and session_id "${id}" when it is not needed any more.`,
]

/** The fields that the API takes by the same name. */
const PLAIN = {
  create: [
    'name',
    'tags',
    'headless',
    'gpu',
    'stealth',
    'region',
    'timeout_seconds',
    'start_url',
    'kiosk_mode',
    'chrome_policy',
    'proxy_id',
    'proxy',
    'network',
  ],
  update: ['name', 'tags', 'start_url', 'proxy_id', 'proxy', 'network', 'disable_default_proxy'],
} as const
/** Those that are part of an object there. */
const NESTED = [
  ...(['profile_name', 'profile_id', 'save_profile_changes', 'viewport_width', 'viewport_height', 'viewport_refresh_rate'] as const),
  ...(['telemetry_enabled', 'telemetry_console', 'telemetry_network', 'telemetry_page', 'telemetry_interaction'] as const),
]

const nested = (
  given: Parameters<typeof profileOf>[0] & Parameters<typeof extensionsOf>[0] & Parameters<typeof viewportOf>[0] & Parameters<typeof telemetryOf>[0],
) => ({
  ...profileOf(given),
  ...extensionsOf(given),
  ...viewportOf(given),
  ...telemetryOf(given),
})

const only = (given: object, names: readonly string[]): object => Object.fromEntries(Object.entries(given).filter(([name]) => names.includes(name)))

export const manageBrowsers = tool(
  {
    name: 'manage_browsers',
    toolset: 'browsers',
    asFields: AS_FIELDS,
    title: 'Manage browser sessions',
    description:
      'Manage browser sessions. "create" starts one, "list" shows which there are, "get" shows one with all its addresses, "update" changes a running one, "delete" ends one (always do that when it is not needed any more), "get_telemetry" reads what was recorded of a running or ended session to find out what went wrong.',
    fields: {
      session_id: z.string().min(1).describe('Id or name of the session.'),
      name: field(UpdateBrowser.shape.name, 'A name for the session, unique among the running ones. In an update an empty one removes it.'),
      tags: Tags.describe('Labels of your own. In an update they replace all tags; in a list only sessions that have all of them.'),
      headless: field(create.headless, 'The page fills the screen, without address bar and tabs.'),
      gpu: z.boolean().describe('A browser with a GPU.'),
      stealth: field(create.stealth, 'Look less like an automated browser.'),
      region: Region.describe('Region of the session; in a list only sessions of it.'),
      timeout_seconds: field(create.timeout_seconds, 'The session ends after so many seconds without use. Default 60.'),
      start_url: field(create.start_url, 'Page to open at the start; in an update now, after all other changes.'),
      kiosk_mode: field(create.kiosk_mode, 'Hide address bar and tabs.'),
      chrome_policy: field(create.chrome_policy, 'Enterprise policies of Chrome. Those for extensions, proxy and automation are refused.'),
      ...browserFields,
      save_profile_changes: z.boolean().describe('Save the state of the session to its profile when the session ends.'),
      proxy_id: z.string().min(1).describe('Id of the proxy for its traffic.'),
      proxy: field(create.proxy, 'The same as an object: by id or name, or mode "direct" for none.'),
      network: field(
        create.network,
        'Which hosts the session may reach (allowed_hosts), which without its proxy (private_hosts), and which through another one (proxy_routes).',
      ),
      clear_proxy: z.boolean().describe('true takes the proxy away.'),
      disable_default_proxy: z.boolean().describe('Connect directly instead of by the default proxy.'),
      viewport_force: z.boolean().describe('Change the screen also while it is watched or recorded.'),
      telemetry_enabled: z.boolean().describe('Record telemetry: control, connection, system and captcha unless categories are named. false switches it off.'),
      telemetry_console: z.boolean().describe('Record console messages and uncaught exceptions.'),
      telemetry_network: z.boolean().describe('Record requests and responses.'),
      telemetry_page: z.boolean().describe('Record navigations and loads.'),
      telemetry_interaction: z.boolean().describe('Record clicks, keys and scrolls.'),
      status: z.enum(['active', 'deleted', 'all']).describe('Which sessions. Default active.'),
      query: field(browsers.listBrowsers.query.shape.query, 'Part of a name, or a whole id: of a session, its profile, its proxy or its pool.'),
      ...telemetryFields,
      ...paging,
    },
  },
  (on) => ({
    create: on(
      {
        takes: [...PLAIN.create, ...NESTED, 'extension_id', 'extension_name'],
      },
      async (given, api) => {
        const plain = only(given, PLAIN.create)
        const browser = await api.call(browsers.createBrowser, {
          body: {
            ...plain,
            ...nested(given),
          } as z.input<typeof CreateBrowser>,
        })
        return jsonResult({ browser, next_actions: nextActions(browser.session_id) })
      },
    ),
    update: on(
      {
        needs: ['session_id'],
        takes: [...PLAIN.update, ...NESTED, 'clear_proxy', 'viewport_force'],
      },
      async (given, api) => {
        const { session_id, proxy_id, clear_proxy } = given
        const plain = only(given, PLAIN.update)
        if (clear_proxy && proxy_id !== undefined) throw together('clear_proxy', 'proxy_id')
        if (clear_proxy && given.proxy !== undefined) throw together('clear_proxy', 'proxy')
        const browser = await api.call(browsers.updateBrowser, {
          params: { id_or_name: session_id },
          body: {
            ...plain,
            ...nested(given),
            ...(clear_proxy && { proxy_id: '' }),
          } as z.input<typeof UpdateBrowser>,
        })
        return jsonResult({ browser, next_actions: nextActions(browser.session_id) })
      },
    ),
    list: on({ takes: ['status', 'region', 'tags', 'query', 'limit', 'offset'] }, async ({ status, region, tags, query, limit, offset }, api) => {
      const { items, ...page } = await api.call(browsers.listBrowsers, { query: { status, region, tags, query, limit, offset } })
      return jsonResult({ items: items.map(brief), ...page, note: 'The action "get" shows all of one session.' })
    }),
    get: on({ needs: ['session_id'] }, async ({ session_id }, api) =>
      jsonResult(await api.call(browsers.getBrowser, { params: { id_or_name: session_id }, query: { include_deleted: 'true' } })),
    ),
    get_telemetry: on({ needs: ['session_id'], takes: ['categories', 'since', 'until', 'order', 'compact', 'limit', 'offset'] }, readTelemetry),
    delete: on({ needs: ['session_id'] }, async ({ session_id }, api) => {
      await api.call(browsers.deleteBrowser, { params: { id_or_name: session_id }, query: {} })
      return textResult('The browser session is deleted.')
    }),
  }),
)

/** Without the addresses that carry the session's token: a list shows what there is, and does not hand out the sessions. */
export function brief<B extends object>(browser: B): Omit<B, 'cdp_ws_url' | 'webdriver_ws_url'> {
  const { cdp_ws_url: _cdp, webdriver_ws_url: _bidi, ...rest } = browser as B & { cdp_ws_url?: unknown; webdriver_ws_url?: unknown }
  return rest
}
