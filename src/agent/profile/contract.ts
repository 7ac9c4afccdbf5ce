// The agent's calls for profiles, for the control plane only: load one into the running browser, save the one in use at the session's end.
import * as z from 'zod'
import { byteStream, bytes, json, queryBoolean, route } from '../../http/route.ts'

const group = 'Agent'

/** The media type of an archive: tar, compressed with zstd. */
const ARCHIVE_TYPE = 'application/zstd'
/**
 * The first file of an archive that we write: `{"version":1,"chromium":"156.0.…"}`. An archive without it is loaded, too; then the Chromium that wrote it is
 * not known.
 */
export const MANIFEST = 'cob-profile.json'
/** Limit on the files and directories of an archive. */
export const MAX_ENTRIES = 100_000

/**
 * Headers of a saved profile: whether Chromium has closed it as at its own end; the size of its files before compression; the number of entries that are left
 * out because Chromium cannot have made them.
 */
export const WHOLE_HEADER = 'x-cob-profile-whole'
export const BYTES_HEADER = 'x-cob-profile-bytes'
export const LEFT_OUT_HEADER = 'x-cob-profile-left-out'

/** A gigabyte takes half a minute on a busy machine. */
const DEADLINE_MS = 10 * 60_000

export const profile = {
  /**
   * Once in a session. If it fails, the session's profile stays the same. After a success, the default context of every client is the profile's; earlier pages
   * and contexts are being closed, and clients that connect later do not see them.
   */
  loadProfile: route({
    method: 'PUT',
    path: '/profile',
    id: 'loadProfile',
    group,
    summary: 'Load a profile into the running browser',
    query: z.strictObject({
      /** Opens the tabs with which the profile was saved. With a `start_url` they are left out. */
      keep_tabs: queryBoolean,
      /** Limit on the size of its files, in bytes. */
      max_bytes: z.coerce.number().int().min(1),
      start_url: z.string().optional(),
    }),
    body: byteStream,
    bodyKind: 'bytes',
    maxBodyBytes: Infinity,
    deadlineMs: DEADLINE_MS,
    /** The version of the running Chromium. */
    reply: json(z.object({ chromium: z.string().max(256) })),
    faults: ['conflict', 'unavailable'],
  }),
  /** Closes Chromium for good. A repeated call packs again. */
  saveProfile: route({
    method: 'POST',
    path: '/profile/save',
    id: 'saveProfile',
    group,
    summary: 'Close the browser and pack its profile; the session has no browser from then on',
    deadlineMs: DEADLINE_MS,
    reply: bytes(ARCHIVE_TYPE),
    faults: ['conflict', 'unavailable'],
  }),
}
