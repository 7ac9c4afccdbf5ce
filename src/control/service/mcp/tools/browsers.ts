// manage_browsers and manage_browser_pools.
import * as z from 'zod'
import { fault } from '../../../../http/fault.ts'
import type { Page } from '../../../../http/route.ts'
import { browserPools } from '../../../sessions/browser-pools/contract.ts'
import { browsers, type Browser } from '../../../sessions/browsers/contract.ts'
import { act, itemsOf, tool, type Given } from '../tool.ts'
import { getTelemetry, telemetryFields } from './browser-telemetry.ts'

export const paging = {
  limit: 'Most results of one page.',
  offset: 'Where the page begins: next_offset of the page before.',
}

const options = {
  headless: 'The page fills the screen, without address bar and tabs.',
  stealth: 'Look less like an automated browser.',
  kiosk_mode: 'Hide address bar and tabs.',
  timeout_seconds: 'The session ends after so many seconds without use.',
  chrome_policy: 'Enterprise policies of Chrome. Those for extensions, proxy and automation are refused. In an update of a pool {} clears them.',
  profile_name: ['profile.name', 'Name of the profile whose cookies and logins are loaded.'],
  profile_id: ['profile.id', 'The same, by id.'],
  extension_id: ['extensions.0.id', 'Id of an extension to load.'],
  extension_name: ['extensions.0.name', 'The same, by name.'],
  viewport_width: ['viewport.width', 'Width of the screen in pixels; together with viewport_height.'],
  viewport_height: ['viewport.height', 'Height of the screen in pixels; together with viewport_width.'],
  viewport_refresh_rate: ['viewport.refresh_rate', 'Pictures per second of the screen.'],
  proxy_id: 'Id of the proxy for its traffic. In an update an empty one clears it.',
} as const

/** Applies a field that clears another one. @throws fault when the caller also sets the other one */
function clear(body: Given, field: string, isCleared: boolean | undefined, values: Given): void {
  if (!isCleared) return
  const other = Object.keys(values).find((name) => body[name] !== undefined)
  if (other !== undefined) throw fault.field(field, `cannot be given together with ${other}`)
  Object.assign(body, values)
}

/** Without the addresses that contain a session's token: a list shows the sessions, but gives no access to them. */
export const briefly = <T extends object>({ items, ...page }: Page<T>) => ({
  ...page,
  items: items.map((item) => Object.fromEntries(Object.entries(item).filter(([name]) => name !== 'cdp_ws_url' && name !== 'webdriver_ws_url'))),
})

const withNext = (browser: Browser) => ({
  browser,
  next_actions: [
    `Use computer_action with session_id "${browser.session_id}" to see and control the browser.`,
    `Use execute_playwright_code with session_id "${browser.session_id}" to drive its pages by code.`,
    `Use manage_browsers with action "delete" and session_id "${browser.session_id}" when it is not needed any more.`,
  ],
})

export const manageBrowsers = tool({
  name: 'manage_browsers',
  title: 'Manage browser sessions',
  description:
    'Manage browser sessions. "create" starts one, "list" shows which there are, "get" shows one with all its addresses, "update" changes a running one, "delete" ends one (always do that when it is not needed any more), "get_telemetry" reads what was recorded of a running or ended session to find out what went wrong.',
  fields: {
    session_id: ['id_or_name id', 'Id or name of the session.'],
    name: 'A name for the session, unique among the running ones. In an update an empty one removes it.',
    tags: 'Labels of your own. In an update they replace all tags; in a list only sessions that have all of them.',
    gpu: 'A browser with a GPU.',
    region: 'Region of the session; in a list only sessions of it.',
    start_url: 'Page to open at the start; in an update now, after all other changes.',
    ...options,
    save_profile_changes: ['profile.save_changes', 'Save the state of the session to its profile when the session ends.'],
    proxy: 'The same as an object: by id or name, or mode "direct" for none.',
    network: 'Which hosts the session may reach (allowed_hosts), which without its proxy (private_hosts), and which through another one (proxy_routes).',
    clear_proxy: 'true takes the proxy away.',
    disable_default_proxy: 'Connect directly instead of by the default proxy.',
    viewport_force: ['viewport.force', 'Change the screen also while it is watched or recorded.'],
    telemetry_enabled: ['telemetry.enabled', 'Record telemetry: control, connection, system and captcha unless categories are named. false switches it off.'],
    telemetry_console: ['telemetry.browser.console.enabled', 'Record console messages and uncaught exceptions.'],
    telemetry_network: ['telemetry.browser.network.enabled', 'Record requests and responses.'],
    telemetry_page: ['telemetry.browser.page.enabled', 'Record navigations and loads.'],
    telemetry_interaction: ['telemetry.browser.interaction.enabled', 'Record clicks, keys and scrolls.'],
    status: 'Which sessions. Default active.',
    query: 'Part of a name, or a whole id: of a session, its profile, its proxy or its pool.',
    ...telemetryFields,
    ...paging,
  },
  actions: {
    create: act(browsers.createBrowser, { answer: withNext }),
    update: act(browsers.updateBrowser, {
      own: { clear_proxy: z.boolean().optional() },
      edit: ({ body }, { clear_proxy }) => clear(body, 'clear_proxy', clear_proxy as boolean, { proxy_id: '', proxy: undefined }),
      answer: withNext,
    }),
    list: act(browsers.listBrowsers, { answer: (page) => ({ ...itemsOf(briefly(page)), note: 'The action "get" shows all of one session.' }) }),
    get: act(browsers.getBrowser, { with: { query: { include_deleted: 'true' } } }),
    get_telemetry: getTelemetry,
    delete: browsers.deleteBrowser,
  },
})

export const manageBrowserPools = tool({
  name: 'manage_browser_pools',
  title: 'Manage pools of browsers',
  description:
    'Manage pools: browsers of one configuration that are kept ready. "acquire" takes one (it is then a browser session like others), "release" gives it back, "flush" ends the idle ones, so that new ones are made.',
  fields: {
    id_or_name: 'Id or name of the pool.',
    name: 'Name of the pool; of an acquired browser: the name of its session.',
    size: 'How many browsers the pool has.',
    fill_rate_per_minute: 'How much of the pool is made again in a minute, in percent.',
    start_url: 'Page that its browsers open. In an update an empty one clears it.',
    ...options,
    clear_profile: 'true takes the profile away.',
    clear_extensions: 'true takes all extensions away.',
    discard_all_idle: 'Make idle browsers anew at once.',
    force: 'Delete it although browsers of it are in use; they end.',
    acquire_timeout_seconds: 'How long to wait for a browser.',
    session_id: 'Id of the session to give back.',
    reuse: 'false: the browser ends, and another one is made.',
    ...paging,
  },
  actions: {
    create: act(browserPools.createBrowserPool, {
      answer: (pool) => ({
        browser_pool: pool,
        next_actions: [`Use manage_browser_pools with action "acquire" and id_or_name "${pool.id}" to take a browser of it.`],
      }),
    }),
    update: act(browserPools.updateBrowserPool, {
      own: { clear_profile: z.boolean().optional(), clear_extensions: z.boolean().optional() },
      edit({ body }, { clear_profile, clear_extensions }) {
        clear(body, 'clear_profile', clear_profile as boolean, { profile: { id: '' } })
        clear(body, 'clear_extensions', clear_extensions as boolean, { extensions: [] })
      },
      answer: (pool) => ({ browser_pool: pool }),
    }),
    list: browserPools.listBrowserPools,
    get: browserPools.getBrowserPool,
    delete: browserPools.deleteBrowserPool,
    flush: browserPools.flushBrowserPool,
    acquire: act(browserPools.acquireBrowser, {
      answer(browser, { id_or_name }) {
        if (browser === undefined) throw fault.unavailable('no browser of the pool became free in time; try again')
        const back = `Use manage_browser_pools with action "release", id_or_name "${id_or_name}" and session_id "${browser.session_id}" to give it back.`
        return { browser, next_actions: [back] }
      },
    }),
    release: browserPools.releaseBrowser,
  },
})
