// A small picture of the screen for the control plane, which stores one for each session, for all viewers of lists.
import * as z from 'zod'
import { json, route } from '../../http/route.ts'

/** The longer side of a thumbnail, in pixels, unless the screen is smaller. */
export const THUMBNAIL_SIDE = 320

export const thumbnail = {
  readThumbnail: route({
    method: 'GET',
    path: '/thumbnail',
    id: 'readThumbnail',
    group: 'Agent',
    summary: 'Get a small picture of the screen, unless it is still the known one',
    query: z.strictObject({ known: z.string().max(64).optional() }),
    /** `png`: base64; null when `tag` is the known one. */
    reply: json(z.object({ tag: z.string().max(64), png: z.string().nullable() })),
    deadlineMs: 5_000,
  }),
}
