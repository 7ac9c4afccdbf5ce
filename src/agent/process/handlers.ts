// The process contract, answered by the table of processes.
import { fault } from '../../http/fault.ts'
import type { Handlers } from '../../http/route.ts'
import { MAX_STDIN_BYTES, type processes } from './contract.ts'
import type { Processes } from './processes.ts'

/** The part of the process table that the calls use: real in an instance, refused by the fake driver. */
export type ProcessTable = Pick<Processes, 'exec' | 'spawn' | 'status' | 'write' | 'output' | 'kill' | 'resize' | 'isRunning'>

export function processHandlers(table: ProcessTable): Handlers<typeof processes> {
  return {
    execProcess: ({ body, signal }) => table.exec(body, signal),
    spawnProcess: ({ body, signal }) => table.spawn(body, signal),
    processStatus: ({ params }) => table.status(params.process_id),
    writeProcessStdin: async ({ params, body, signal }) => {
      const data = bytesOf(body.data_b64)
      await table.write(params.process_id, data, signal)
      return { written_bytes: data.length }
    },
    streamProcessOutput: ({ params, signal }) => table.output(params.process_id, signal),
    killProcess: async ({ params, body }) => {
      await table.kill(params.process_id, `SIG${body.signal}`)
      return { ok: true }
    },
    resizeProcessTerminal: ({ params, body }) => {
      table.resize(params.process_id, body)
      return { ok: true }
    },
  }
}

/** @throws 400 for invalid base64: Node would skip invalid characters */
function bytesOf(base64: string): Buffer {
  const data = Buffer.from(base64, 'base64')
  if (base64.length % 4 !== 0 || data.length !== Buffer.byteLength(base64, 'base64')) throw fault.field('data_b64', 'is not valid base64 with padding')
  if (data.length > MAX_STDIN_BYTES) throw fault.field('data_b64', `is more than ${MAX_STDIN_BYTES} bytes; send it in several calls`)
  return data
}
