// The folders that a session may write, and how they show a machine's /usr/local.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { linksTo, makePlaces, sharedPlaces } from './places.ts'

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

test('the places are made once for all starts, again when they are gone or /usr/local is another, and old ones are removed', () => {
  const root = join(dir, 'data')
  mkdirSync(root)
  const places = sharedPlaces(root, linksTo(local))
  const folder = places()
  expect([places(), sharedPlaces(root, linksTo(local))()]).toEqual([folder, folder])
  expect(readlinkSync(join(folder, 'local/bin/tool'))).toBe('/opt/local/bin/tool')
  rmSync(folder, { recursive: true })
  rmSync(join(folder, '..'), { recursive: true })
  expect(existsSync(join(places(), 'var/log'))).toBe(true)
  writeFileSync(join(local, 'bin/another'), 'x')
  const other = sharedPlaces(root, linksTo(local))()
  expect(readlinkSync(join(other, 'local/bin/another'))).toBe('/opt/local/bin/another')
  expect(readdirSync(root)).toHaveLength(2)
  utimesSync(join(folder, '..'), 0, 0)
  sharedPlaces(root, linksTo(local))
  expect(readdirSync(root).map((name) => join(root, name, 'places'))).toEqual([other])
})

test('a machine without /usr/local is supported', () => {
  const links = linksTo(join(dir, 'nothing'))
  expect(links).toEqual({ folders: [], links: [] })
  makePlaces(join(dir, 'places'), undefined, links)
  expect(existsSync(join(dir, 'places/local/bin'))).toBe(true)
})
