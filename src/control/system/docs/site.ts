// The documentation, built at the first use of it and kept compressed.
import { Worker } from 'node:worker_threads'
import { Unavailable } from '../../../base/unavailable.ts'
import type { BuiltPart } from './build-thread.ts'

/** Limit on building it: about a second of CPU time. */
const BUILD_MS = 60_000

const RETRY_SECONDS = 5

export type Site = ReadonlyMap<string, BuiltPart>

let kept: Promise<Site> | undefined

/** What is served, by path. The first call builds it; a build that fails is tried again by the next call. @throws Unavailable */
export function site(): Promise<Site> {
  kept ??= build().catch((error: unknown) => {
    kept = undefined
    throw error
  })
  return kept
}

function build(): Promise<Site> {
  const { promise, resolve, reject } = Promise.withResolvers<Site>()
  const worker = new Worker(new URL('build-thread.ts', import.meta.url))
  // A service that stops does not wait for it.
  worker.unref()
  const timer = setTimeout(() => reject(new Unavailable('the documentation is not ready yet', RETRY_SECONDS)), BUILD_MS)
  timer.unref()
  worker.once('message', (parts: [string, BuiltPart][]) => resolve(new Map(parts)))
  worker.once('error', reject)
  worker.once('exit', (code) => reject(new Error(`the thread that builds the documentation has ended with ${code}`)))
  return promise.finally(() => {
    clearTimeout(timer)
    void worker.terminate()
  })
}
