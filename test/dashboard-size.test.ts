// How much the dashboard loads before somebody sees something.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { buildDashboard } from '../web/build.ts'

const MAX_BYTES = 300 * 1024
/** What only the page of one session loads, when somebody opens its terminal. */
const HEAVY = ['xterm']

interface Chunk {
  file: string
  src?: string
  isEntry?: boolean
  imports?: string[]
  css?: string[]
}

test('the first page, the list of sessions, loads in less than 300 KB, and without what only other pages need', async () => {
  const folder = await buildDashboard()
  const manifest = JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8')) as Record<string, Chunk>
  const needed = new Set(['index.html'])
  const add = (key: string): void => {
    const chunk = manifest[key]!
    needed.add(chunk.file)
    for (const css of chunk.css ?? []) needed.add(css)
    for (const other of chunk.imports ?? []) add(other)
  }
  const entry = Object.keys(manifest).find((key) => manifest[key]!.isEntry)!
  add(entry)
  add('src/pages/sessions/list.tsx')
  const texts = [...needed].map((file) => readFileSync(join(folder, file)))
  const bytes = texts.reduce((sum, text) => sum + gzipSync(text, { level: 9 }).length, 0)
  expect(bytes).toBeGreaterThan(50 * 1024)
  expect(bytes).toBeLessThan(MAX_BYTES)
  // The contracts are types here: their library would be in the bundle otherwise.
  for (const text of texts) expect(text.includes('ZodError') || HEAVY.some((name) => text.includes(name))).toBe(false)
})
