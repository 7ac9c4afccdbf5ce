// Keeps a node ready for sessions: their seccomp profile lies on it, and a label says so, by which their pods choose their nodes. The chart runs it on each node.
import type { CoreV1Api } from '@kubernetes/client-node'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { sleep } from '../../base/wait.ts'
import { saidBy } from './api.ts'

/** How often the file and the label are looked at. */
const LOOK_MS = 10_000
const READY = 'ready'

interface Node {
  core: Pick<CoreV1Api, 'readNode' | 'patchNode'>
  name: string
  label: string
}

interface NodeReady {
  /** Undefined: only the file is kept. */
  node: Node | undefined
  file: string
  profile: string
  say(line: string): void
  /** {@link LOOK_MS}, unless given. */
  lookMs?: number
}

/** Keeps the file, and the label while the file is there, until the signal aborts; then takes the label away. */
export async function keepNodeReady({ node, file, profile, say, lookMs = LOOK_MS }: NodeReady, signal: AbortSignal): Promise<void> {
  let last = ''
  const tell = (line: string): void => {
    if (line !== last) say(line)
    last = line
  }
  while (!signal.aborted) {
    try {
      keepFile(file, profile)
      if (node) await label(node, true)
      tell(`${file} is there${node ? `, and node ${node.name} has the label ${node.label}=${READY}` : ''}`)
    } catch (error) {
      tell(`this node is not ready for sessions: ${saidBy(error)}`)
      // Without the file a session does not start here.
      if (node && contentOf(file) !== profile) await label(node, false).catch((again: unknown) => tell(`its label could not be taken away: ${saidBy(again)}`))
    }
    await sleep(lookMs, signal).catch(() => {})
  }
  if (node) await label(node, false)
}

/** Replaces the file as a whole, because a pod may start at any moment. */
function keepFile(file: string, profile: string): void {
  if (contentOf(file) === profile) return
  const next = join(dirname(file), `.${basename(file)}.new`)
  writeFileSync(next, profile, { mode: 0o644 })
  renameSync(next, file)
}

function contentOf(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}

async function label({ core, name, label: key }: Node, isReady: boolean): Promise<void> {
  const { metadata } = await core.readNode({ name })
  const has = metadata?.labels?.[key]
  if (has === (isReady ? READY : undefined)) return
  // JSON Patch (RFC 6902).
  const path = `/metadata/labels/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`
  await core.patchNode({ name, body: [isReady ? { op: 'add', path, value: READY } : { op: 'remove', path }] })
}
