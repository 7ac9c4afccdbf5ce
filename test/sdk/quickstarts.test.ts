// The quick starts that need only the SDKs, Playwright and Puppeteer: each program comes from its page. test/quickstarts has those with agents and models.
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import type { Cloud } from '../support/cloud.ts'
import { FIRST, NODE, readQuickstart, runQuickstart, serveExample, type Site } from '../support/quickstarts.ts'
import { shareCloud } from '../support/shared-cloud.ts'

const MODULES = join(PACKAGE_DIR, 'node_modules')
const PYTHON = join(PACKAGE_DIR, '.cob/python')

let cloud: Cloud
let site: Site
const ended = new AsyncDisposableStack()
beforeAll(async () => {
  site = ended.use(await serveExample())
  cloud = ended.use(await shareCloud())
})
afterAll(() => ended.disposeAsync())

const VENV = [join(PYTHON, 'venv/bin/python')]
const PYTHONPATH = join(PYTHON, '0.131.0')

describe('a first session prints what its page says, without the internet', () => {
  test.each([
    ['start', 'start.mts', NODE, {}],
    ['start', 'start.py', VENV, { PYTHONPATH }],
    ['start', 'start.sh', ['sh', '-eu'], {}],
    ['../README', 'first.mts', NODE, {}],
  ])('%s: %s', async (page, name, command, env) => {
    const modules = command === NODE ? MODULES : undefined
    expect(await runQuickstart(page, name, { cloud, opens: FIRST, command, modules, env })).toBe(readQuickstart('start').output)
    expect((await cloud.client.browsers.list()).items).toEqual([])
  })

  test.each([
    ['start.mts', NODE, {}],
    ['start.py', VENV, { PYTHONPATH }],
    ['start.sh', ['sh', '-eu'], {}],
  ])('%s fails when its page cannot be opened, says why, and leaves no session', async (name, command, env) => {
    const how = { cloud, opens: FIRST, site: { url: 'http://127.0.0.1:9/' }, command, modules: command === NODE ? MODULES : undefined, env }
    await expect(runQuickstart('start', name, how)).rejects.toThrow(/net::ERR_/)
    expect((await cloud.client.browsers.list()).items).toEqual([])
  })
})

describe('a program prints what its page says', () => {
  test.each(['playwright', 'puppeteer', 'cdp'])('%s', async (name) => {
    const page = `quickstarts/${name}`
    const before = site.paths().length
    expect(await runQuickstart(page, `${name}.mts`, { cloud, site, command: NODE, modules: MODULES })).toBe(readQuickstart(page).output)
    // The program loaded the example page, and no session is left.
    expect(site.paths().length).toBeGreaterThan(before)
    expect((await cloud.client.browsers.list()).items).toEqual([])
  })
})

test('a program that fails, fails', async () => {
  const how = { cloud, opens: FIRST, command: NODE, modules: MODULES, env: { KERNEL_API_KEY: 'wrong' } }
  await expect(runQuickstart('start', 'start.mts', how)).rejects.toThrow(/start\.mts of docs\/start\.md failed.*401/s)
})
