// While a function waits, callers leave and sessions end, so an entry that it found before may be removed. A `!` after a look-up therefore needs its check in the same
// code, without an `await` between.
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { parseSync } from 'vite'
import { expect, test } from 'vitest'
import { PACKAGE_DIR } from '../src/base/paths.ts'

interface Node {
  type: string
  start: number
  end: number
  [part: string]: unknown
}

const isNode = (value: unknown): value is Node => typeof (value as Node | null)?.type === 'string'
const partsOf = (node: Node): Node[] => Object.values(node).flat().filter(isNode)
const isFunction = ({ type }: Node) => ['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression'].includes(type)

const namesIn = (node: Node): string[] =>
  node.type === 'Identifier' ? [node['name'] as string] : (node.type === 'Property' ? [node['value'] as Node] : partsOf(node)).flatMap(namesIn)

/** The names that a function declares. Each call of it has its own, so no other call changes them. */
function declared(node: Node): string[] {
  const own = node.type === 'VariableDeclarator' ? namesIn(node['id'] as Node) : isFunction(node) ? (node['params'] as Node[]).flatMap(namesIn) : []
  return [...own, ...partsOf(node).flatMap(declared)]
}

/** The object that a `!` looks up a key in: `x` in `x.get(key)!` and in `x[key]!`. */
function lookedIn(node: Node): Node | undefined {
  if (node.type !== 'TSNonNullExpression') return undefined
  const found = node['expression'] as Node
  if (found.type === 'MemberExpression' && found['computed']) return found['object'] as Node
  const callee = found.type === 'CallExpression' ? (found['callee'] as Node) : undefined
  return callee?.type === 'MemberExpression' && (callee['property'] as Node)['name'] === 'get' ? (callee['object'] as Node) : undefined
}

const rootOf = (node: Node): Node =>
  node.type === 'MemberExpression' ? rootOf(node['object'] as Node) : node.type === 'TSNonNullExpression' ? rootOf(node['expression'] as Node) : node

/** The text of each unsafe `!`: it follows a look-up in shared state, in an async function that has waited before. */
function unsafe(source: string, node: Node, within?: { names: Set<string>; hasWaited: boolean }): string[] {
  const scope = isFunction(node) && node['async'] === true ? { names: new Set([...(within?.names ?? []), ...declared(node)]), hasWaited: false } : within
  const place = scope?.hasWaited ? lookedIn(node) : undefined
  const root = place && rootOf(place)
  const isOthers = root?.type === 'ThisExpression' || (root?.type === 'Identifier' && !scope!.names.has(root['name'] as string))
  const found = partsOf(node).flatMap((part) => unsafe(source, part, scope))
  if (scope && (node.type === 'AwaitExpression' || (node.type === 'ForOfStatement' && node['await'] === true))) scope.hasWaited = true
  return isOthers ? [...found, source.slice(node.start, node.end)] : found
}

const findings = (source: string): string[] => unsafe(source, parseSync('x.ts', source).program as unknown as Node)

/** Look-ups that are safe all the same. */
const SAFE: Record<string, string[]> = {
  // Only the holder of the keyboard's turn changes the map.
  'agent/computer/keyboard.ts': ['lent.get(keysym)!'],
  // A reading does not change; when the page changes, the agent makes a new one.
  'agent/login/act.ts': ['this.#reading.frames[at.parent]!'],
}

test('no function takes for granted, after a wait, what it looks up in a map that others change', () => {
  const files = readdirSync(join(PACKAGE_DIR, 'src'), { recursive: true, encoding: 'utf8' }).filter((file) => /(?<!\.test|\.suite|\.d)\.ts$/.test(file))
  expect(files.length).toBeGreaterThan(500)
  const found = files.flatMap((file) => {
    const all = findings(readFileSync(join(PACKAGE_DIR, 'src', file), 'utf8')).filter((text) => !SAFE[file]?.includes(text))
    return all.map((text) => `${file}: ${text}`)
  })
  expect(found).toEqual([])
})

test.each([
  ['async () => { await x(); running.get(id)! }', ['running.get(id)!']],
  ['async () => { await x(); ids.map((id) => [...this.#running.get(id)!]) }', ['this.#running.get(id)!']],
  ['async function f() { for await (const x of xs) y; return seen[id]! }', ['seen[id]!']],
  ['async () => { running.get(id)!; await x() }', []],
  ['async () => { const rows = await x(); return rows[0]! }', []],
  ['async ({ mine }) => { await x(); return mine.get(1)! }', []],
  ['async () => { await x(); return () => running.get(id)?.size }', []],
  ['async () => { const f = async () => { await y() }; return running.get(id)! }', []],
])('%s: %j', (source, expected) => {
  expect(findings(source)).toEqual(expected)
})
