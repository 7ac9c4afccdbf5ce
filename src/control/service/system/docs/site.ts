// The documentation, built at the first use of it and kept compressed.
import { fork } from 'node:child_process'
import { Unavailable } from '../../../../base/unavailable.ts'
import type { BuiltPart } from './build-program.ts'

/** Limit on building it: about a second of CPU time. */
const BUILD_MS = 60_000
const RETRY_SECONDS = 5
/** Of what a failed build has printed. */
const MAX_PRINTED = 4096

export type Site = ReadonlyMap<string, BuiltPart>

/** What is served, by path. The first call builds it; a build that has failed is tried again some seconds later. @throws Unavailable when it takes too long */
export const site = makeSite(new URL('build-program.ts', import.meta.url), { limitMs: BUILD_MS, retryMs: RETRY_SECONDS * 1000 })

/** `program` sends the parts of a site to its parent. Those who ask within `retryMs` after a failure get that failure: anybody may ask, and each build costs. */
export function makeSite(program: URL, { limitMs, retryMs }: { limitMs: number; retryMs: number }): () => Promise<Site> {
  let kept: Promise<Site> | undefined
  return () =>
    (kept ??= build(program, limitMs).catch((error: unknown) => {
      setTimeout(() => (kept = undefined), retryMs).unref()
      throw error
    }))
}

// A process of its own: requests do not wait for it, and its memory, more than 100 MB, is given back.
function build(program: URL, limitMs: number): Promise<Site> {
  const { promise, resolve, reject } = Promise.withResolvers<Site>()
  const child = fork(program, {
    execArgv: ['--disable-warning=ExperimentalWarning'],
    env: {},
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  })
  let printed = ''
  child.stderr!.on('data', (piece: Buffer) => (printed = (printed + piece.toString()).slice(-MAX_PRINTED)))
  const timer = setTimeout(() => reject(new Unavailable('the documentation is not ready yet', RETRY_SECONDS)), limitMs)
  // A service that stops does not wait for it.
  for (const held of [timer, child, child.channel!, child.stderr as unknown as { unref(): void }]) held.unref()
  child.once('message', (parts) => resolve(new Map(parts as [string, BuiltPart][])))
  child.once('error', reject)
  child.once('close', (code, signal) => reject(new Error(`building the documentation has ended with ${code ?? signal}: ${printed}`)))
  return promise.finally(() => {
    clearTimeout(timer)
    child.kill('SIGKILL')
  })
}
