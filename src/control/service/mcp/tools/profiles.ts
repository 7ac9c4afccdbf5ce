// manage_profiles, manage_replays, manage_extensions and manage_proxies.
import * as z from 'zod'
import { fault } from '../../../../http/fault.ts'
import { browsers } from '../../../sessions/browsers/contract.ts'
import { extensions } from '../../../sessions/extensions/contract.ts'
import { profiles } from '../../../sessions/profiles/contract.ts'
import { proxies } from '../../../sessions/proxies/contract.ts'
import { replays } from '../../../sessions/replays/contract.ts'
import type { Api } from '../api.ts'
import { tool, type Given } from '../tool.ts'
import { paging } from './browsers.ts'

/** Time for a person to log in and confirm it. */
const SETUP_SECONDS = 300

export const manageProfiles = tool({
  name: 'manage_profiles',
  title: 'Manage browser profiles',
  description:
    'Manage profiles: cookies, logins and local state that browser sessions can begin with. "setup" makes a profile and a browser in which a person logs in by its live view; delete that browser afterwards to save the profile. A rename while a browser uses the profile may keep that browser from saving it.',
  fields: {
    profile_name: ['id_or_name', 'Name of the profile.'],
    profile_id: ['id_or_name', 'Id of the profile, instead of its name.'],
    new_name: ['name', 'Its new name.'],
    update_existing: 'true: go on with the profile of this name that exists.',
    query: 'Part of a name, or a whole id.',
    ...paging,
  },
  actions: {
    setup: { own: { profile_name: z.string().min(1).max(255), update_existing: z.boolean().optional() }, run: setup },
    list: { route: profiles.listProfiles, without: ['new_name'] },
    get: profiles.getProfile,
    rename: profiles.updateProfile,
    delete: profiles.deleteProfile,
  },
})

async function setup({ profile_name: name, update_existing }: Given, api: Api): Promise<string> {
  const found = (await api.call(profiles.listProfiles, { query: { name: name as string, limit: 1 } })).items[0]
  if (found && !update_existing) throw fault.field('update_existing', `must be true: a profile with this name exists (${found.id})`)
  if (!found && update_existing) throw fault.field('profile_name', 'is no profile; leave update_existing out to make it')
  const { id } = found ?? (await api.call(profiles.createProfile, { body: { name: name as string } }))
  const body = { stealth: true, timeout_seconds: SETUP_SECONDS, profile: { id, save_changes: true } }
  const { session_id, browser_live_view_url } = await api.call(browsers.createBrowser, { body })
  return (
    `The profile is ${found ? 'loaded' : 'made'}. Open ${browser_live_view_url} and log in where the profile is to be logged in. ` +
    `Afterwards use manage_browsers with action "delete" and session_id "${session_id}": that saves the profile.\n` +
    `profile_id: ${id}\nsession_id: ${session_id}`
  )
}

export const manageReplays = tool({
  name: 'manage_replays',
  title: 'Manage recordings of browser sessions',
  description:
    'Record browser sessions as video. "start" begins and answers a replay_id and an address where it can be watched, "stop" ends one and keeps it, "list" shows those of a session, which may have ended. Start once, work, then stop.',
  hints: { destructiveHint: false },
  fields: {
    session_id: ['id', 'Id or name of the session.'],
    replay_id: 'Id of the replay.',
    framerate: 'Most pictures per second.',
    max_duration_in_seconds: 'The recording ends by itself after so many seconds.',
    record_audio: 'Record sound as well.',
  },
  actions: { start: replays.startReplay, stop: replays.stopReplay, list: replays.listReplays },
})

export const manageExtensions = tool({
  name: 'manage_extensions',
  title: 'Manage browser extensions',
  description: 'Manage the extensions that are stored for browser sessions. They are uploaded by the API, the CLI or an SDK.',
  fields: { id_or_name: 'Id or name of the extension.', ...paging },
  actions: { list: extensions.listExtensions, delete: extensions.deleteExtension },
})

export const manageProxies = tool({
  name: 'manage_proxies',
  title: 'Manage proxies',
  description:
    'Manage the proxies that browser sessions can send their traffic through. "create" adds one: of a server of your own (type custom), or of the types that the operator of this service has set up. "check" tries one, with an address if you name it.',
  fields: {
    proxy_id: ['id_or_name', 'Id of the proxy.'],
    type: 'Kind of the proxy.',
    name: 'Name of the proxy.',
    country: ['config.country', 'Code of the country, such as "US"; not for custom.'],
    state: ['config.state', 'State; not for custom.'],
    city: ['config.city', 'City without spaces, such as "sanfrancisco"; not for custom.'],
    custom_protocol: ['protocol', 'Protocol of a custom proxy.'],
    custom_host: ['config.host', 'Host of a custom proxy.'],
    custom_port: ['config.port', 'Port of a custom proxy.'],
    custom_username: ['config.username', 'User at a custom proxy.'],
    custom_password: ['config.password', 'Password at a custom proxy.'],
    check_url: ['url', 'An address to fetch through the proxy.'],
    ...paging,
  },
  actions: {
    create: proxies.createProxy,
    list: proxies.listProxies,
    get: proxies.getProxy,
    rename: proxies.updateProxy,
    check: proxies.checkProxy,
    delete: proxies.deleteProxy,
  },
})
