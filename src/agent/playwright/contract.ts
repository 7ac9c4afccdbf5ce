// The call that runs Playwright code beside the browser.
import * as z from 'zod'
import { json, route } from '../../http/route.ts'

/** Code of one run, in UTF-16 code units. */
const MAX_CODE = 1024 * 1024
/** JSON may write one code unit as six bytes. */
const MAX_BODY = MAX_CODE * 6 + 1024

const MAX_TIMEOUT_S = 300

/** How long a run may wait for earlier runs. A run that times out here has not begun. */
export const QUEUE_MS = 300_000

/** The time for starting the worker and connecting it to the browser. */
const START_MS = 60_000

export const playwright = {
  executePlaywright: route({
    method: 'POST',
    path: '/playwright/execute',
    id: 'executePlaywright',
    group: 'Browser Playwright',
    summary: 'Run Playwright code in the session',
    body: z.strictObject({
      /** The body of an async function in TypeScript or JavaScript, with `page`, `context` and `browser` in scope. Its return value is the result. */
      code: z
        .string()
        .max(MAX_CODE)
        .refine((code) => code.trim() !== '', 'must not be empty'),
      /** The run is stopped after this many seconds. */
      timeout_sec: z.int().min(1).max(MAX_TIMEOUT_S).default(60),
      /** Only the executor `default` exists. It is also used when none is named. */
      executor: z.literal(['default', ''], { error: 'named executors are not built yet in this version of Cob; only "default"' }).optional(),
    }),
    maxBodyBytes: MAX_BODY,
    deadlineMs: QUEUE_MS + START_MS + 2 * MAX_TIMEOUT_S * 1000 + 10_000,
    reply: json(
      z.object({
        success: z.boolean(),
        /** The return value of the code, as JSON. Absent if it was undefined. */
        result: z.unknown().optional(),
        /** The error of a failed run. */
        error: z.string().optional(),
        /** The output of the code. Output above 1 MiB is dropped, and a last line says so. */
        stdout: z.string(),
        stderr: z.string(),
      }),
    ),
  }),
}
