// Tells of calls of the agent's tools: those that drive the browser, and those that manage what is around it. An event says which call, how long, and how it
// ended; nothing of what was sent or answered: texts to type, clipboards, code and files are its caller's own.
import type { FastifyInstance } from 'fastify'
import { routeId } from '../../http/mount.ts'
import type { Contract } from '../../http/route.ts'
import { computer } from '../computer/contract.ts'
import { curl } from '../curl/contract.ts'
import { extensions, extensionStaging } from '../extensions/contract.ts'
import { filesystem } from '../fs/contract.ts'
import { logs } from '../logs/contract.ts'
import { playwright } from '../playwright/contract.ts'
import { processes } from '../process/contract.ts'
import { profile } from '../profile/contract.ts'
import { recording } from '../recording/contract.ts'
import { session } from '../session/contract.ts'
import { telemetry as telemetryCalls } from './contract.ts'
import type { Telemetry } from './telemetry.ts'

const DRIVING: readonly Contract[] = [computer, curl, playwright]
/** Of the session's own calls only the one that changes it: the others are questions of the service, many of them every few seconds. */
const { fitSession } = session
const MANAGING: readonly Contract[] = [filesystem, processes, logs, recording, extensions, extensionStaging, profile, telemetryCalls, { fitSession }]

/** Names by which the original's API inside a session knows the same calls, where ours differ. */
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

/** The status of a call whose caller left before it was answered. */
const LEFT = 499

interface Reported {
  type: 'api_call' | 'platform_api_call'
  category: 'control' | 'platform'
  operation: string
}

const reported = (contracts: readonly Contract[], type: Reported['type'], category: Reported['category']): [string, Reported][] =>
  contracts.flatMap((contract) =>
    Object.values(contract).map(({ id }): [string, Reported] => [id, { type, category, operation: NAMES[id] ?? id[0]!.toUpperCase() + id.slice(1) }]),
  )

const CALLS = new Map([...reported(DRIVING, 'api_call', 'control'), ...reported(MANAGING, 'platform_api_call', 'platform')])

/** Tells of the calls of `app` from now on, each when its answer has been sent or given up. */
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
        // The service names a call by the same id in its answer.
        request_id: request.id,
        status: raw.headersSent ? raw.statusCode : LEFT,
        duration_ms: Math.round((performance.now() - began) * 1000) / 1000,
      }
      telemetry.emit({ type: call.type, source: { kind: 'kernel_api', event: call.operation }, data })
    })
  })
}
