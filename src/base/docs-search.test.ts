// The search of the documentation: sections of pages, best first.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { makeDocsSearch, sectionsOf } from './docs-search.ts'

test('a page is cut at its headings, but not in blocks of code', () => {
  const page = '# Title\nBegin.\n\n## First\none\n```sh\n# no heading\n```\n### Empty\n\n## Second ##\n~~~\n## none\n~~~\nend\n'
  expect(sectionsOf('docs/x.md', page).map(({ title, heading, text }) => [title, heading, text])).toEqual([
    ['Title', '', 'Begin.'],
    ['Title', 'First', 'one\n```sh\n# no heading\n```'],
    ['Title', 'Second ##', '~~~\n## none\n~~~\nend'],
  ])
})

test('finds by words of headings and texts, also with a typo or only the beginning, and no more than asked for', async () => {
  const search = makeDocsSearch()
  expect(await search('COB_RATE_LIMIT_PER_MINUTE', 5)).toContainEqual(expect.objectContaining({ path: 'docs/settings.md', title: 'Settings' }))
  expect((await search('live view', 3)).map(({ path }) => path)).toContain('docs/live-view.md')
  expect((await search('kuberntes', 3)).map(({ path }) => path)).toContain('docs/kubernetes.md')
  expect(await search('browser', 2)).toHaveLength(2)
  expect(await search('', 5)).toEqual([])
  for (const { excerpt } of await search('browser', 50)) expect(excerpt.length).toBeLessThanOrEqual(801)
})

test('a folder that is missing at first is read at the next search', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'cob-docs-'))
  try {
    const search = makeDocsSearch(join(dir, 'docs'))
    await expect(search('anything', 1)).rejects.toThrow('ENOENT')
    const there = makeDocsSearch(dir)
    writeFileSync(join(dir, 'page.md'), '# Page\n\n## Section\nAnything at all.\n')
    expect(await there('anything', 5)).toEqual([{ title: 'Page', path: 'docs/page.md', heading: 'Section', excerpt: 'Anything at all.' }])
  } finally {
    rmSync(dir, { recursive: true })
  }
})
