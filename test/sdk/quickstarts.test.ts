// The quick starts that need nothing but the SDKs, Playwright and Puppeteer, each taken out of its page. Those with agents and models are in test/quickstarts.
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import type { Cloud } from '../support/cloud.ts'
import { NODE, readQuickstart, runQuickstart, serveExample, type Site } from '../support/quickstarts.ts'
import { shareCloud } from '../support/shelf.ts'

const MODULES = join(PACKAGE_DIR, 'node_modules')
const PYTHON = join(PACKAGE_DIR, '.cob/python')

let cloud: Cloud
let site: Site
beforeAll(async () => {
  site = await serveExample()
  cloud = await shareCloud()
})
afterAll(async () => {
  await cloud[Symbol.asyncDispose]()
  await site[Symbol.asyncDispose]()
})

describe('a first session prints what its page says', () => {
  test.each([
    ['start', 'start.ts', NODE, {}],
    ['start', 'start.py', [join(PYTHON, 'venv/bin/python')], { PYTHONPATH: join(PYTHON, '0.131.0') }],
    ['start', 'start.sh', ['sh', '-eu'], {}],
    ['quickstarts/playwright', 'playwright.ts', NODE, {}],
    ['quickstarts/puppeteer', 'puppeteer.ts', NODE, {}],
    ['quickstarts/cdp', 'cdp.ts', NODE, {}],
  ])('%s: %s', async (page, name, command, env) => {
    const before = site.paths().length
    expect(await runQuickstart(page, name, { cloud, site, command, modules: MODULES, env })).toBe(readQuickstart(page).output)
    // It came from the page, and no session is left.
    expect(site.paths().length).toBeGreaterThan(before)
    expect((await cloud.client.browsers.list()).items).toEqual([])
  })
})

test('a program that fails, fails', async () => {
  const how = { cloud, site, command: NODE, modules: MODULES, env: { KERNEL_API_KEY: 'wrong' } }
  await expect(runQuickstart('start', 'start.ts', how)).rejects.toThrow(/start\.ts of docs\/start\.md failed.*401/s)
})
