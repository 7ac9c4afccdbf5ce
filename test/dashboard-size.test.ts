// The size of the dashboard and of the standalone pages: how much a browser loads before it shows something.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { buildDashboard } from '../web/build.ts'

const MAX_BYTES = 300 * 1024
/** The limits in kB for standalone pages, not compressed, because phones on slow networks open them. The live view also has noVNC. */
const MAX_ALONE: Record<string, number> = { consent: 64, live: 300, login: 64, message: 8, player: 64 }
/** Only the page of a session loads these, when a person opens its terminal. */
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
  // The dashboard imports only types of the contracts; otherwise zod would be in the bundle.
  for (const text of texts) expect(text.includes('ZodError') || HEAVY.some((name) => text.includes(name))).toBe(false)
})

test('a page that stands alone is small, and loads nothing of the dashboard', async () => {
  const folder = await buildDashboard()
  const pages = readdirSync(folder).filter((name) => name.endsWith('.html') && name !== 'index.html')
  const ofDashboard = readFileSync(join(folder, 'manifest.json'), 'utf8')
  const sizes = pages.map((name) => {
    const html = readFileSync(join(folder, name), 'utf8')
    const files = [...html.matchAll(/(?:src|href)="\/dashboard\/([^"]+)"/g)].map(([, file]) => file!)
    expect(files.filter((file) => ofDashboard.includes(file))).toEqual([])
    return [name.replace('.html', ''), files.reduce((sum, file) => sum + readFileSync(join(folder, file)).length, html.length)] as const
  })
  expect(sizes.map(([name]) => name).toSorted()).toEqual(Object.keys(MAX_ALONE))
  expect(sizes.filter(([name, bytes]) => bytes > MAX_ALONE[name]! * 1024)).toEqual([])
})
