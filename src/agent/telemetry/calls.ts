// Events about calls of the agent's tools that drive the browser, or manage its environment. An event has the call, its duration, and its result, but no
// content: texts to type, clipboards, code and files are private to the caller.
import type { FastifyInstance } from 'fastify'
import { routeId } from '../../http/mount.ts'
import { session } from '../session/contract.ts'
import { contractsOf, idsOf } from '../contract.ts'
import type { Telemetry } from './telemetry.ts'

/** Names of the same calls in the original's API inside a session, where ours differ. */
const NAMES: Record<string, string> = {
  captureScreenshot: 'TakeScreenshot',
  setCursorVisibility: 'SetCursor',
  batchActions: 'BatchComputerAction',
  executePlaywright: 'ExecutePlaywrightCode',
  execProcess: 'ProcessExec',
  spawnProcess: 'ProcessSpawn',
  writeProcessStdin: 'ProcessStdin',
  streamProcessOutput: 'ProcessStdoutStream',
  killProcess: 'ProcessKill',
  resizeProcessTerminal: 'ProcessResize',
  moveFile: 'MovePath',
  streamLogs: 'LogsStream',
  readRecording: 'DownloadRecording',
  forgetRecording: 'DeleteRecording',
}

/** The status of a call whose caller disconnected before the answer. */
const LEFT = 499

interface Reported {
  type: 'api_call' | 'platform_api_call'
  category: 'control' | 'platform'
  operation: string
}

const reported = (ids: readonly string[], type: Reported['type'], category: Reported['category']): [string, Reported][] =>
  ids.map((id) => [id, { type, category, operation: NAMES[id] ?? id[0]!.toUpperCase() + id.slice(1) }])

const CALLS = new Map([
  ...reported(idsOf(contractsOf(({ reportedAs }) => reportedAs === 'driving')), 'api_call', 'control'),
  // Of the session's own calls only the one that changes it: the others are queries of the service, many of them every few seconds.
  ...reported([...idsOf(contractsOf(({ reportedAs }) => reportedAs === 'managing')), session.fitSession.id], 'platform_api_call', 'platform'),
])

/** Emits events about the calls of `app` from now on, each when its answer was sent or given up. */
export function tellCalls(app: FastifyInstance, telemetry: Telemetry): void {
  app.addHook('onRequest', async (request, reply) => {
    const call = CALLS.get(routeId(request))
    if (!call || !telemetry.captures(call.category)) return
    const began = performance.now()
    const { floor } = telemetry
    const { raw } = reply
    raw.once('close', () => {
      if (telemetry.floor !== floor) return
      const data = {
        operation_id: call.operation,
        // The service has the same id in its answer.
        request_id: request.id,
        status: raw.headersSent ? raw.statusCode : LEFT,
        duration_ms: Math.round((performance.now() - began) * 1000) / 1000,
      }
      telemetry.emit({ type: call.type, source: { kind: 'kernel_api', event: call.operation }, data })
    })
  })
}
