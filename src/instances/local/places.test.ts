// The places that a session may write, and how they show a machine's /usr/local.
import { existsSync, mkdirSync, mkdtempSync, readlinkSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { linksTo, makePlaces } from './places.ts'

let dir: string
let local: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'cob-places-'))
  local = join(dir, 'usr-local')
  for (const folder of ['bin', 'share/fonts', 'lib/python3.11/dist-packages/tool', 'go/bin', 'empty']) mkdirSync(join(local, folder), { recursive: true })
  for (const file of ['bin/tool', 'share/fonts/a.ttf', 'lib/python3.11/dist-packages/tool/x.py', 'go/bin/go']) writeFileSync(join(local, file), 'x')
})
afterEach(() => rmSync(dir, { recursive: true, force: true }))

test('the programs of the machine are links in folders that belong to the session', () => {
  const links = linksTo(local)
  expect(links.links.toSorted()).toEqual(['bin/tool', 'empty', 'go', 'lib/python3.11/dist-packages/tool', 'share/fonts/a.ttf'])
  expect(links.folders.toSorted()).toEqual(['bin', 'lib', 'lib/python3.11', 'lib/python3.11/dist-packages', 'share', 'share/fonts'])
  const places = join(dir, 'places')
  makePlaces(places, undefined, links)
  expect(readlinkSync(join(places, 'local/bin/tool'))).toBe('/opt/local/bin/tool')
  for (const folder of ['app', 'data', 'root', 'local/sbin', 'local/share/fonts', 'var/log', 'var/tmp'])
    expect(statSync(join(places, folder)).isDirectory()).toBe(true)
  expect(statSync(join(places, 'root')).mode & 0o777).toBe(0o700)
  expect(readlinkSync(join(places, 'var/run'))).toBe('/run')
})

test('very many programs on the machine cost a start only a few links', () => {
  for (let i = 0; i < 1_000; i++) writeFileSync(join(local, `share/fonts/${i}.ttf`), '')
  const links = linksTo(local)
  expect(links.links).toContain('share/fonts')
  expect(links.links.length).toBeLessThan(10)
  makePlaces(join(dir, 'places'), undefined, links)
  expect(readlinkSync(join(dir, 'places/local/share/fonts'))).toBe('/opt/local/share/fonts')
})

test('a machine without /usr/local is supported', () => {
  const links = linksTo(join(dir, 'nothing'))
  expect(links).toEqual({ folders: [], links: [] })
  makePlaces(join(dir, 'places'), undefined, links)
  expect(existsSync(join(dir, 'places/local/bin'))).toBe(true)
})
