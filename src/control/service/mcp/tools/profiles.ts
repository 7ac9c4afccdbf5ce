// manage_profiles, manage_replays and manage_extensions.
import { z } from 'zod'
import { fault } from '../../../../http/fault.ts'
import { browsers } from '../../../sessions/browsers/contract.ts'
import { extensions } from '../../../sessions/extensions/contract.ts'
import { Name, profiles } from '../../../sessions/profiles/contract.ts'
import { replays, StartReplay } from '../../../sessions/replays/contract.ts'
import { jsonResult, textResult } from '../results.ts'
import { field, paging, tool } from '../tool.ts'
import { together } from './browser-options.ts'

/** Time for a person to log in, and to say so. */
const SETUP_SECONDS = 300

export const manageProfiles = tool(
  {
    name: 'manage_profiles',
    toolset: 'profiles',
    title: 'Manage browser profiles',
    description:
      'Manage profiles: cookies, logins and local state that browser sessions can begin with. "setup" makes a profile and a browser in which a person logs in by its live view; delete that browser afterwards to save the profile. A rename while a browser uses the profile may keep that browser from saving it.',
    fields: {
      profile_name: z.string().min(1).max(255).describe('Name of the profile.'),
      profile_id: z.string().min(1).max(255).describe('Id of the profile, instead of its name.'),
      new_name: field(Name, 'Its new name.'),
      update_existing: z.boolean().describe('true: go on with the profile of this name that exists.'),
      query: z.string().max(1024).describe('Part of a name, or a whole id.'),
      ...paging,
    },
  },
  (on) => ({
    setup: on({ needs: ['profile_name'], takes: ['update_existing'] }, async ({ profile_name: name, update_existing }, api) => {
      const found = (await api.call(profiles.listProfiles, { query: { name, limit: 1 } })).items[0]
      if (found && !update_existing) throw fault.field('update_existing', `must be true: a profile with this name exists (${found.id})`)
      if (!found && update_existing) throw fault.field('profile_name', 'is no profile; leave update_existing out to make it')
      const profile = found ?? (await api.call(profiles.createProfile, { body: { name } }))
      const browser = await api.call(browsers.createBrowser, {
        body: { stealth: true, timeout_seconds: SETUP_SECONDS, profile: { id: profile.id, save_changes: true } },
      })
      return textResult(
        `The profile is ${found ? 'loaded' : 'made'}. Open ${browser.browser_live_view_url} and log in where the profile is to be logged in. ` +
          `Afterwards use manage_browsers with action "delete" and session_id "${browser.session_id}": that saves the profile.\n` +
          `profile_id: ${profile.id}\nsession_id: ${browser.session_id}`,
      )
    }),
    list: on({ takes: ['query', 'limit', 'offset'] }, async ({ query, limit, offset }, api) =>
      jsonResult(await api.call(profiles.listProfiles, { query: { query, limit, offset } })),
    ),
    get: on({ takes: ['profile_name', 'profile_id'] }, async (given, api) => jsonResult(await api.call(profiles.getProfile, { params: called(given) }))),
    rename: on({ needs: ['new_name'], takes: ['profile_name', 'profile_id'] }, async ({ new_name: name, ...given }, api) =>
      jsonResult(await api.call(profiles.updateProfile, { params: called(given), body: { name } })),
    ),
    delete: on({ takes: ['profile_name', 'profile_id'] }, async (given, api) => {
      await api.call(profiles.deleteProfile, { params: called(given) })
      return textResult('The profile is deleted.')
    }),
  }),
)

function called({ profile_name: name, profile_id: id }: { profile_name?: string | undefined; profile_id?: string | undefined }): { id_or_name: string } {
  if (name !== undefined && id !== undefined) throw together('profile_name', 'profile_id')
  const found = id ?? name
  if (found === undefined) throw fault.field('profile_name', 'is required, or profile_id')
  return { id_or_name: found }
}

export const manageReplays = tool(
  {
    name: 'manage_replays',
    toolset: 'replays',
    title: 'Manage recordings of browser sessions',
    description:
      'Record browser sessions as video. "start" begins and answers a replay_id and an address where it can be watched, "stop" ends one and keeps it, "list" shows those of a session, which may have ended. Start once, work, then stop.',
    hints: { destructiveHint: false },
    fields: {
      session_id: z.string().min(1).describe('Id or name of the session.'),
      replay_id: z.string().min(1).describe('Id of the replay.'),
      framerate: field(StartReplay.shape.framerate, 'Most pictures per second. Default 10.'),
      max_duration_in_seconds: field(StartReplay.shape.max_duration_in_seconds, 'The recording ends by itself after so many seconds.'),
      record_audio: field(StartReplay.shape.record_audio, 'Record sound as well.'),
    },
  },
  (on) => ({
    start: on({ needs: ['session_id'], takes: ['framerate', 'max_duration_in_seconds', 'record_audio'] }, async (given, api) => {
      const { session_id: id, framerate, max_duration_in_seconds, record_audio } = given
      const body = { framerate, max_duration_in_seconds, record_audio }
      return jsonResult(await api.call(replays.startReplay, { params: { id }, query: {}, body: body as z.input<typeof StartReplay> }))
    }),
    stop: on({ needs: ['session_id', 'replay_id'] }, async ({ session_id: id, replay_id }, api) => {
      await api.call(replays.stopReplay, { params: { id, replay_id } })
      return textResult('The recording is stopped.')
    }),
    list: on({ needs: ['session_id'] }, async ({ session_id: id }, api) =>
      jsonResult({ items: await api.call(replays.listReplays, { params: { id }, query: {} }), has_more: false, next_offset: null }),
    ),
  }),
)

export const manageExtensions = tool(
  {
    name: 'manage_extensions',
    toolset: 'extensions',
    title: 'Manage browser extensions',
    description: 'Manage the extensions that are stored for browser sessions. They are uploaded by the API, the CLI or an SDK.',
    fields: { id_or_name: z.string().min(1).describe('Id or name of the extension.'), ...paging },
  },
  (on) => ({
    list: on({ takes: ['limit', 'offset'] }, async ({ limit, offset }, api) =>
      jsonResult(await api.call(extensions.listExtensions, { query: { limit, offset } })),
    ),
    delete: on({ needs: ['id_or_name'] }, async ({ id_or_name }, api) => {
      await api.call(extensions.deleteExtension, { params: { id_or_name } })
      return textResult('The extension is deleted.')
    }),
  }),
)
