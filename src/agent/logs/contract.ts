// Logs of the session for callers. Paths are the agent's; the control plane offers them below a browser.
import * as z from 'zod'
import { events, queryBoolean, route } from '../../http/route.ts'

/** The programs of an instance whose output is kept: the browser, the agent itself, the X server. */
export const ProgramName = z.enum(['chromium', 'agent', 'display'])
export type ProgramName = z.output<typeof ProgramName>

const LogEvent = z.object({ event: z.literal('log'), message: z.string(), timestamp: z.string() })
export type LogEvent = z.input<typeof LogEvent>

export const LogQuery = z
  .strictObject({
    /** A file, or one of the programs that make up the session. */
    source: z.enum(['path', 'supervisor']),
    /** With source path: the file. */
    path: z
      .string()
      .max(4096)
      .refine((path) => path.startsWith('/'), 'must be an absolute path')
      .optional(),
    /** With source supervisor: the program. */
    supervisor_process: ProgramName.optional(),
    /** True: only new lines, without end. False: the existing lines, then the end. */
    follow: queryBoolean.default(true),
  })
  .superRefine(({ source, path, supervisor_process: program }, context) => {
    const problem = (field: string, message: string) => context.addIssue({ code: 'custom', path: [field], message })
    if (source === 'path' && path === undefined) problem('path', 'is needed with source "path"')
    if (source === 'path' && program !== undefined) problem('supervisor_process', 'is only for source "supervisor"')
    if (source === 'supervisor' && program === undefined)
      problem('supervisor_process', `is needed with source "supervisor": one of ${ProgramName.options.join(', ')}`)
    if (source === 'supervisor' && path !== undefined) problem('path', 'is only for source "path"')
  })

export const logs = {
  streamLogs: route({
    method: 'GET',
    path: '/logs/stream',
    id: 'streamLogs',
    group: 'Browser Logs',
    summary: 'Read or follow a log file',
    query: LogQuery,
    deadlineMs: Infinity,
    reply: events(LogEvent),
    faults: ['not_found', 'unavailable'],
  }),
}
