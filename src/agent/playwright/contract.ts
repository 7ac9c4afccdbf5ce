// Playwright code run beside the browser, as callers see it.
import { z } from 'zod'
import { json, route } from '../../http/route.ts'

/** Code of one run, in UTF-16 code units. */
const MAX_CODE = 1024 * 1024
/** JSON may write one code unit as six bytes. */
const MAX_BODY = MAX_CODE * 6 + 1024

const MAX_TIMEOUT_S = 300

/** How long a run may wait for those before it. One that waited in vain has not begun. */
export const QUEUE_MS = 300_000

/** Starting what runs it, and connecting it. */
const START_MS = 60_000

export const playwright = {
  executePlaywright: route({
    method: 'POST',
    path: '/playwright/execute',
    id: 'executePlaywright',
    group: 'Browser Playwright',
    summary: 'Run Playwright code in the session',
    body: z.strictObject({
      /** The body of an async function: TypeScript or JavaScript, with `page`, `context` and `browser` in scope. What it returns is the result. */
      code: z
        .string()
        .max(MAX_CODE)
        .refine((code) => code.trim() !== '', 'must not be empty'),
      /** Seconds after which the run is ended. */
      timeout_sec: z.int().min(1).max(MAX_TIMEOUT_S).default(60),
      /** The executor of calls that name none is called `default`, and there is no other. */
      executor: z.literal(['default', ''], { error: 'named executors are not built yet in this version of Cob; only "default"' }).optional(),
    }),
    maxBodyBytes: MAX_BODY,
    deadlineMs: QUEUE_MS + START_MS + 2 * MAX_TIMEOUT_S * 1000 + 10_000,
    reply: json(
      z.object({
        success: z.boolean(),
        /** What the code returned, as JSON; absent when that was undefined. */
        result: z.unknown().optional(),
        /** Why it did not succeed. */
        error: z.string().optional(),
        /** What it printed. Of more than 1 MiB the rest is left out, and a last line says so. */
        stdout: z.string(),
        stderr: z.string(),
      }),
    ),
  }),
}
