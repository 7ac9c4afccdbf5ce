// Unpacks incoming code: the runner of sandboxes that do nothing else.
import type { Readable } from 'node:stream'
import { CannotPack, unpackFolder } from './pack.ts'
import type { RunnerPaths } from './limits.ts'
import { Refused, type Work } from './serve.ts'

export function hostUnpack(paths: RunnerPaths): Work {
  let begun = false
  return {
    ready: Promise.resolve({ ok: true }),
    async unpack(body) {
      if (begun) throw new Refused('conflict', 'this runner has its code')
      begun = true
      await unpackInto(paths.app, body)
    },
  }
}

/** Unpacks code into the folder of an app. @throws Refused when it cannot be unpacked */
export const unpackInto = (app: string, body: Readable): Promise<void> => unpackFolder(body, app).catch(refuse)

function refuse(error: unknown): never {
  throw error instanceof CannotPack ? new Refused('bad_request', error.message) : error
}
