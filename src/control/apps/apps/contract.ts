// The contract of the Apps group, and events that followers of deployments and of runs share.
import * as z from 'zod'
import { page, pagingQuery, route } from '../../../http/route.ts'

export const Time = z.iso.datetime()
export const Region = z.literal('aws.us-east-1a')

/** The label of a version: free text. */
export const Version = z.string().min(1).max(255)

/** The schemas are null: the types that the code declares do not exist at run time. */
export const AppAction = z.object({
  name: z.string(),
  input_schema: z.record(z.string(), z.unknown()).nullable(),
  output_schema: z.record(z.string(), z.unknown()).nullable(),
})

export const LogEvent = z.object({ event: z.literal('log'), message: z.string(), timestamp: Time })
/** Sent now and then on a quiet stream: clients that do not follow disconnect after 3 s without any event. */
export const Heartbeat = z.object({ event: z.literal('sse_heartbeat'), timestamp: Time })
/** The last event of a stream that had to end with an error. */
export const ErrorEvent = z.object({ event: z.literal('error'), error: z.object({ code: z.string(), message: z.string() }), timestamp: Time })

/** The newest deployment that runs under a name and version. */
export const App = z.object({
  id: z.string(),
  app_name: z.string(),
  version: z.string(),
  deployment: z.string(),
  region: Region,
  actions: z.array(AppAction),
  /** Names only; values are never returned. */
  env_vars: z.record(z.string(), z.string()),
})
export type App = z.output<typeof App>

export const apps = {
  listApps: route({
    method: 'GET',
    path: '/apps',
    id: 'listApps',
    group: 'Apps',
    summary: 'List the running versions of apps',
    query: z.strictObject({
      ...pagingQuery,
      app_name: z.string().max(255).optional(),
      version: z.string().max(255).optional(),
      /** Part of an app's name, or a whole id of a version or deployment. */
      query: z.string().max(255).optional(),
    }),
    reply: page(App),
  }),
}
