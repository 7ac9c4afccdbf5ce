// Keeps a node ready for sessions: it writes their seccomp profile, and sets a label by which their pods choose nodes. The chart runs it on each node.
import type { CoreV1Api } from '@kubernetes/client-node'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { sleep } from '../../base/wait.ts'
import { failed, hasStatus, saidBy } from './api.ts'

/** Interval of the checks of the file and the label. */
const LOOK_MS = 10_000
const READY = 'ready'

type Nodes = Pick<CoreV1Api, 'listNode' | 'patchNode'>

interface Node {
  core: Pick<CoreV1Api, 'readNode' | 'patchNode'>
  name: string
  label: string
}

interface NodeReady {
  /** When undefined, only the file is kept. */
  node: Node | undefined
  file: string
  profile: string
  say(line: string): void
  /** {@link LOOK_MS}, unless given. */
  lookMs?: number
}

/** Keeps the file, and the label as long as the file exists, until the signal aborts; then removes the label. */
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
      // Sessions cannot start on this node without the file.
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
  await core.patchNode({ name, body: [isReady ? { op: 'add', path: pathOf(key), value: READY } : { op: 'remove', path: pathOf(key) }] })
}

/** The place of a label in a JSON Patch (RFC 6902). */
const pathOf = (key: string): string => `/metadata/labels/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`

/** Removes the label from all nodes: the pods on them may have lost their rights before they could. Returns the number of nodes that had it. */
export async function removeLabel(core: Nodes, key: string): Promise<number> {
  const { items } = await core.listNode({ labelSelector: key }).catch((error: unknown) => {
    throw failed('listing nodes', error)
  })
  for (const { metadata } of items)
    await core.patchNode({ name: metadata!.name!, body: [{ op: 'remove', path: pathOf(key) }] }).catch((error: unknown) => {
      // The node is deleted, or its own pod has just removed the label.
      if (!hasStatus(error, 404) && !hasStatus(error, 422)) throw failed(`taking the label from node ${metadata!.name}`, error)
    })
  return items.length
}
