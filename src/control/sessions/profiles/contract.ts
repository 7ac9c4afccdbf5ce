// The state of a browser (cookies, storage, tabs, …) that sessions load and save, and the options of sessions for it.
import * as z from 'zod'
import { isId } from '../../../base/ids.ts'
import { bytes, json, nameQuery, none, page, pagingQuery, route } from '../../../http/route.ts'
import { option } from '../browsers/options/option/contract.ts'

const group = 'Profiles'
const Time = z.iso.datetime()

export const Name = z
  .string()
  .regex(/^[A-Za-z0-9._-]{1,255}$/, 'must have 1 to 255 letters, digits, ".", "_" or "-"')
  .refine((name) => !isId(name), 'must not look like an id (24 letters and digits)')

export const Profile = z.object({
  id: z.string(),
  created_at: Time,
  name: z.string().optional(),
  /** Absent: no session has used it yet. */
  last_used_at: Time.optional(),
  /** When it was saved, restored or renamed. */
  updated_at: Time.optional(),
  /** Set while an ended session is being saved into it. A create that names the profile waits for that. */
  saving: z.literal(true).optional(),
})
export type Profile = z.output<typeof Profile>

/** The result of the save of an ended session. */
const Saved = z.object({
  /** `in_part`: data that Chromium had not written yet is missing; `not`: nothing of this session was saved. */
  saved: z.enum(['whole', 'in_part', 'not']),
  version_id: z.string().optional(),
  /** The reason; and which other session has saved the same profile meanwhile. */
  message: z.string(),
})

/** The profile of a session. */
export const SessionProfile = Profile.extend({ save: Saved.optional() })
export type SessionProfile = z.output<typeof SessionProfile>

export const Version = z.object({
  id: z.string(),
  created_at: Time,
  session_id: z.string(),
  bytes: z.int(),
  /** SHA-256 of the archive (tar.zst), in lower-case hex. */
  sha256: z.string(),
  /** The Chromium that wrote it. An older one refuses it. */
  chromium: z.string().optional(),
  /** False: Chromium had not been closed properly, and data of its last seconds may be missing. */
  whole: z.boolean(),
  /** Whether sessions load this version. */
  current: z.boolean(),
})
export type Version = z.output<typeof Version>

const Given = z.strictObject({ id: z.string().max(255).optional(), name: z.string().max(255).optional(), save_changes: z.boolean().optional() })

interface Selection {
  id?: string | undefined
  name?: string | undefined
  save: boolean | undefined
}

/** A profile by its id or name. Both may be empty, for clients with templates: then no profile is asked for. */
const Selected = Given.superRefine(({ id, name, save_changes: save }, context) => {
  if (id && name) context.addIssue({ code: 'custom', path: ['name'], message: 'cannot be given together with id' })
  if (!id && !name && save) context.addIssue({ code: 'custom', path: ['save_changes'], message: 'needs the id or the name of a profile' })
})
  .transform(({ id, name, save_changes: save }): Selection | undefined => (id || name ? { ...(id ? { id } : { name }), save } : undefined))
  .optional()
export type Selected = NonNullable<z.output<typeof Selected>>

/** The option `profile` of sessions. browsers.ts looks the profile up, loads it, and shows it in answers. */
export const profileOption = option({
  create: Selected,
  update: Selected,
  reply: { schema: SessionProfile.optional(), show: () => undefined },
})

/** The same as `profile.save_changes`, in the form of newer clients. An update may also change it alone. */
export const saveOption = option({
  create: z.boolean().optional(),
  update: z.boolean().optional(),
  reply: { schema: z.boolean().optional(), show: () => undefined },
})

const params = z.strictObject({ id_or_name: z.string().min(1) })

export const profiles = {
  createProfile: route({
    method: 'POST',
    path: '/profiles',
    id: 'createProfile',
    group,
    summary: 'Create an empty profile',
    body: z.strictObject({ name: Name.optional() }),
    bodyOptional: true,
    reply: json(Profile, 201),
    faults: ['conflict'],
  }),
  listProfiles: route({
    method: 'GET',
    path: '/profiles',
    id: 'listProfiles',
    group,
    summary: 'List profiles, newest first',
    query: z.strictObject({
      ...pagingQuery,
      ...nameQuery,
    }),
    reply: page(Profile),
  }),
  getProfile: route({
    method: 'GET',
    path: '/profiles/{id_or_name}',
    id: 'getProfile',
    group,
    summary: 'Get a profile',
    params,
    reply: json(Profile),
    faults: ['not_found'],
  }),
  updateProfile: route({
    method: 'PATCH',
    path: '/profiles/{id_or_name}',
    id: 'updateProfile',
    group,
    summary: 'Rename a profile',
    params,
    body: z.strictObject({ name: Name }),
    reply: json(Profile),
    faults: ['not_found', 'conflict'],
  }),
  deleteProfile: route({
    method: 'DELETE',
    path: '/profiles/{id_or_name}',
    id: 'deleteProfile',
    group,
    summary: 'Delete a profile with all its versions; sessions that use it go on, and are not saved',
    params,
    reply: none(),
    faults: ['not_found'],
  }),
  downloadProfile: route({
    method: 'GET',
    path: '/profiles/{id_or_name}/download',
    id: 'downloadProfile',
    right: 'use',
    group,
    summary: 'Download what sessions load, as a tar archive; 202 when nothing has been saved yet',
    params,
    query: z.strictObject({ format: z.enum(['tar.zst', 'tar']).default('tar.zst') }),
    // No limit: the download takes as long as its reader needs.
    deadlineMs: Infinity,
    reply: bytes('application/octet-stream', { others: { 202: { description: 'Nothing has been saved into it yet.', hasBody: false } } }),
    faults: ['not_found', 'unavailable'],
  }),
  listProfileVersions: route({
    method: 'GET',
    path: '/profiles/{id_or_name}/versions',
    id: 'listProfileVersions',
    group,
    summary: 'List the versions of a profile that are kept, newest first',
    params,
    reply: json(z.array(Version)),
    faults: ['not_found'],
  }),
  restoreProfileVersion: route({
    method: 'POST',
    path: '/profiles/{id_or_name}/versions/{version_id}/restore',
    id: 'restoreProfileVersion',
    group,
    summary: 'Let sessions load this version; the others are kept',
    params: params.extend({ version_id: z.string().min(1) }),
    reply: json(Profile),
    faults: ['not_found'],
  }),
}
