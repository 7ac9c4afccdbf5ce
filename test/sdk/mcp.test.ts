// Other people's clients use the MCP server with a real Chromium: two generations of the official TypeScript SDK, and the Python SDK. The long tests add the command line
// of the MCP Inspector.
import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { forTests } from '../support/for-tests.ts'
import { connectMcp, GENERATIONS, type McpClient } from '../support/mcp.ts'
import { servePages } from '../support/pages.ts'
import { shareCloud } from '../support/shared-cloud.ts'

const PROGRAM_MS = 100_000
/** Installs 110 MB, so only the long tests use it. */
const INSPECTOR = '@modelcontextprotocol/inspector@2.12.0'
const INSTALL_MS = 300_000
const run = promisify(execFile)

const pages = forTests(() => servePages())
const cloud = forTests(() => shareCloud())

/** A create returns before the session's page has loaded. */
const LOADED = `await page.waitForFunction(() => window.record && document.readyState === 'complete')`

/** The size of a PNG, from its first chunk. */
const sizeOf = (png: Buffer) => ({ width: png.readUInt32BE(16), height: png.readUInt32BE(20) })

async function withBrowser(client: McpClient, given: object, work: (session_id: string) => Promise<void>): Promise<void> {
  const { browser } = await client.json('manage_browsers', { action: 'create', timeout_seconds: 600, ...given })
  try {
    await work(browser.session_id)
  } finally {
    await client.call('manage_browsers', { action: 'delete', session_id: browser.session_id })
  }
}

describe.each(GENERATIONS)('the official SDK of %s generation', (generation) => {
  test('creates a browser, acts on a page, sees it and deletes it', async () => {
    await using client = await connectMcp(cloud.url, cloud.key, generation)
    const given = { headless: true, start_url: pages.url('writing.html'), viewport_width: 1280, viewport_height: 800 }
    await withBrowser(client, given, async (session_id) => {
      await client.json('execute_playwright_code', { session_id, code: LOADED })
      const shown = await client.call('computer_action', {
        session_id,
        actions: [
          { type: 'click_mouse', click_mouse: { x: 300, y: 40 } },
          { type: 'type_text', type_text: { text: 'typed, ' } },
          { type: 'write_clipboard', write_clipboard: { text: 'and pasted' } },
          { type: 'press_key', press_key: { keys: ['ctrl+v'] } },
          { type: 'screenshot' },
        ],
      })
      expect(shown.isError).toBeFalsy()
      expect(shown.content.map(({ type }) => type)).toEqual(['text', 'text', 'image'])
      expect(shown.content[0]!.text).toBe('4 actions are done.')
      expect(shown.content[1]!.text).toContain('1280 x 800')
      const picture = shown.content[2]!
      expect([picture.mimeType, sizeOf(Buffer.from(picture.data!, 'base64'))]).toEqual(['image/png', { width: 1280, height: 800 }])
      const code = `return await page.locator('#text').inputValue()`
      expect(await client.json('execute_playwright_code', { session_id, code })).toMatchObject({ success: true, result: 'typed, and pasted' })
      const region = { x: 0, y: 0, width: 40, height: 30 }
      const part = await client.call('computer_action', { session_id, actions: [{ type: 'screenshot', screenshot: { region } }] })
      expect(sizeOf(Buffer.from(part.content.at(-1)!.data!, 'base64'))).toEqual({ width: 40, height: 30 })
      expect(await client.json('computer_action', { session_id, actions: [{ type: 'get_mouse_position' }] })).toEqual({ x: 300, y: 40 })
      expect(await client.json('computer_action', { session_id, actions: [{ type: 'read_clipboard' }] })).toEqual({ text: 'and pasted' })
      const ran = await client.json('exec_command', { session_id, command: 'sh', args: ['-c', 'echo out; echo err >&2; exit 3'] })
      expect(ran).toMatchObject({ exit_code: 3, stdout: 'out\n', stderr: 'err\n' })
      const fetched = await client.json('browser_curl', { session_id, url: pages.url('writing.html') })
      expect([fetched.status, fetched.body]).toEqual([200, expect.stringContaining('<title>writing</title>')])
      const { items } = await client.json('manage_browsers', { action: 'list', query: session_id })
      expect(items).toHaveLength(1)
      expect(JSON.stringify(items)).not.toMatch(/jwt=/)
      await client.call('manage_browsers', { action: 'delete', session_id })
      expect(await client.refused('computer_action', { session_id, actions: [{ type: 'screenshot' }] })).toMatch(/ \[code: not_found\]$/)
    })
  })
})

describe('the tools inside a session', () => {
  let client: McpClient
  let session_id: string
  beforeAll(async () => {
    client = await connectMcp(cloud.url, cloud.key)
    session_id = (await client.json('manage_browsers', { action: 'create', headless: true, timeout_seconds: 600 })).browser.session_id
  })
  afterAll(async () => {
    await client.call('manage_browsers', { action: 'delete', session_id })
    await client[Symbol.asyncDispose]()
  })

  test('a list of actions that cannot be done as a whole does nothing', async () => {
    const move = (x: number) => ({ type: 'move_mouse', move_mouse: { x, y: 5, smooth: false } })
    await client.call('computer_action', { session_id, actions: [move(11)] })
    const wrong = [
      [[move(500), { type: 'screenshot' }, move(501)], /^Error in computer_action: actions\.1: screenshot can only be the last action \[code: bad_request\]$/],
      [[move(500), { type: 'sleep' }], /actions\.1\.sleep: expected object/],
      [[move(500), { type: 'sleep', sleep: { duration_ms: 1 }, scroll: { x: 1, y: 1 } }], /actions\.1\.scroll: there is no such property/],
      [[move(500), move(70_000)], /actions\.1\.move_mouse\.x: .*\[code: bad_request\]/],
    ] as const
    for (const [actions, message] of wrong) expect(await client.refused('computer_action', { session_id, actions })).toMatch(message)
    expect(await client.json('computer_action', { session_id, actions: [{ type: 'get_mouse_position' }] })).toEqual({ x: 11, y: 5 })
  })

  test('code that throws is told as its result, and a page of megabytes is cut but stays JSON', async () => {
    const threw = await client.json('execute_playwright_code', { session_id, code: `throw new Error('no luck')` })
    expect(threw).toMatchObject({ success: false, error: expect.stringContaining('no luck') })
    const code = `await page.setContent('<title>[code: forged]</title><p>' + 'words '.repeat(1_000_000)); return { title: await page.title(), text: await page.innerText('p') }`
    const said = await client.call('execute_playwright_code', { session_id, code })
    expect(said.isError).toBeFalsy()
    expect(said.content[0]!.text!.length).toBeLessThanOrEqual(256 * 1024)
    const { result } = JSON.parse(said.content[0]!.text!) as { result: { title: string; text: string } }
    expect(result.title).toBe('[code: forged]')
    expect(result.text).toMatch(/^words words .*\[\d+ of 5999999 characters are not shown\]$/s)
  })

  test('a caller that cancels a call ends it inside the session', async () => {
    const cancel = new AbortController()
    const called = client.call('exec_command', { session_id, command: 'sleep', args: ['97'], timeout_sec: 100 }, cancel.signal)
    const sleeps = async () => (await client.json('exec_command', { session_id, command: 'sh', args: ['-c', 'pgrep -xf "sleep 97" | wc -l'] })).stdout.trim()
    await expect.poll(sleeps).toBe('1')
    cancel.abort(new Error('the caller has had enough'))
    await expect(called).rejects.toThrow()
    await expect.poll(sleeps).toBe('0')
  })

  test('telemetry is read from its start, compact', async () => {
    await client.json('manage_browsers', { action: 'update', session_id, telemetry_console: true })
    await client.json('execute_playwright_code', { session_id, code: `await page.evaluate(() => console.error('a <b>line</b> of the page'))` })
    const read = () => client.json('manage_browsers', { action: 'get_telemetry', session_id, categories: ['console'], limit: 5 })
    await expect.poll(async () => JSON.stringify(await read()), { timeout: 20_000 }).toContain('a <b>line</b> of the page')
    const { items } = await read()
    expect(items[0]).toMatchObject({ seq: expect.any(Number), category: 'console', time: expect.stringMatching(/Z$/) })
  })

  test('a recording is started, listed and stopped', async () => {
    const { replay_id } = await client.json('manage_replays', { action: 'start', session_id, framerate: 5 })
    expect((await client.json('manage_replays', { action: 'list', session_id })).items).toMatchObject([{ replay_id, finished_at: null }])
    expect((await client.call('manage_replays', { action: 'stop', session_id, replay_id })).isError).toBeFalsy()
    expect((await client.json('manage_replays', { action: 'list', session_id })).items).toMatchObject([{ replay_id, finished_at: expect.any(String) }])
  })
})

test.each([
  ['auto', '2026-07-28'],
  ['legacy', '2025-11-25'],
])('the official Python client does the same, in its mode %s', async (mode, revision) => {
  const library = join(PACKAGE_DIR, '.cob/python/mcp')
  if (!existsSync(library)) throw new Error(`${library} is missing: run COB_SETUP_TEST=1 script/setup`)
  const { stdout } = await run(
    join(PACKAGE_DIR, '.cob/python/venv/bin/python'),
    [join(PACKAGE_DIR, 'test/data/python/mcp_session.py'), `${cloud.url}/mcp`, mode, pages.url('writing.html')],
    { env: { PATH: process.env.PATH, PYTHONPATH: library, PYTHONDONTWRITEBYTECODE: '1', MCP_KEY: cloud.key }, timeout: PROGRAM_MS },
  )
  expect(stdout.trim()).toBe(revision)
})

describe.runIf(process.env.COB_TEST_LONG === '1')('the command line of the MCP Inspector', () => {
  let folder: string
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'cob-inspector-'))
    const npm = join(PACKAGE_DIR, 'node_modules/npm/bin/npm-cli.js')
    await run(process.execPath, [npm, 'install', '--prefix', folder, '--no-audit', '--no-fund', '--ignore-scripts', INSPECTOR], { timeout: INSTALL_MS })
  }, INSTALL_MS)
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  const inspect = async (...args: string[]) => {
    const command = [
      join(folder, 'node_modules/.bin/mcp-inspector'),
      '--cli',
      `${cloud.url}/mcp`,
      '--transport',
      'http',
      '--header',
      `Authorization: Bearer ${cloud.key}`,
    ]
    const env = { PATH: process.env.PATH, HOME: folder }
    return JSON.parse((await run(process.execPath, [...command, ...args], { env, timeout: PROGRAM_MS, maxBuffer: 64 * 1024 * 1024 })).stdout) as Record<
      string,
      any
    >
  }
  test('finds nothing in the schemas of tools that a host could not take', async () => {
    expect((await inspect('--method', 'tools/list', '--strict')).tools).toHaveLength(18)
  })
})
