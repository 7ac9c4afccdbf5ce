// What a function has found before a wait may be gone after it: callers leave, sessions end. So a `!` after a look-up needs the look-up's check in the same piece of code without an `await`.
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

/** Names that a pattern declares: `a`, `{ a, b: c }`, `[a, ...b]`. */
const namesIn = (node: Node): string[] =>
  node.type === 'Identifier' ? [node['name'] as string] : (node.type === 'Property' ? [node['value'] as Node] : partsOf(node)).flatMap(namesIn)

/** What a function declares itself, for one call of it: no other call changes that. */
function declared(node: Node): string[] {
  const own = node.type === 'VariableDeclarator' ? namesIn(node['id'] as Node) : isFunction(node) ? (node['params'] as Node[]).flatMap(namesIn) : []
  return [...own, ...partsOf(node).flatMap(declared)]
}

/** The look-up by a key that a `!` belongs to, as what it looks in: `x` of `x.get(key)!` and `x[key]!`. */
function lookedIn(node: Node): Node | undefined {
  if (node.type !== 'TSNonNullExpression') return undefined
  const found = node['expression'] as Node
  if (found.type === 'MemberExpression' && found['computed']) return found['object'] as Node
  const callee = found.type === 'CallExpression' ? (found['callee'] as Node) : undefined
  return callee?.type === 'MemberExpression' && (callee['property'] as Node)['name'] === 'get' ? (callee['object'] as Node) : undefined
}

const rootOf = (node: Node): Node =>
  node.type === 'MemberExpression' ? rootOf(node['object'] as Node) : node.type === 'TSNonNullExpression' ? rootOf(node['expression'] as Node) : node

/** The `!` after look-ups, in what others change, of async functions that have waited before: the text of each. */
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

/** Look-ups that are safe nevertheless. */
const SAFE: Record<string, string[]> = {
  // Who types has a turn at the screen.
  'agent/computer/keyboard.ts': ['lent.get(keysym)!'],
  // What was read of a page does not change; a page that does is read again.
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
