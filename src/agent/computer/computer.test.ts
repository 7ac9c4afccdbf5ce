// Computer controls as callers reach them: through the control plane, to the agent's real routes, with a fake screen. Refused requests are in
// refusals.test.ts, batches in batch.test.ts.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ACTIONS, DONE, outcome, shown, startControls, type Controls } from '../../../test/support/computer.ts'
import { conforms } from '../../../test/support/contract.ts'
import { newId } from '../../base/ids.ts'
import { PACKAGE_DIR } from '../../base/paths.ts'
import { sleep } from '../../base/wait.ts'

/** The time for a call that was just sent to reach the agent. */
const UNDER_WAY_MS = 100
const MIB = 1024 * 1024
const FIRST = [20, 30]
const LAST = [700, 500]

let controls: Controls
beforeAll(async () => void (controls = await startControls()))
afterAll(() => controls[Symbol.asyncDispose]())
const send: Controls['send'] = (...call) => controls.send(...call)
const pathOf = (tool: string) => `/browsers/${controls.session.session_id}/computer/${tool}`

/** A drag that holds the screen for a minute. */
const LONG_DRAG = { path: [FIRST, LAST], delay: 60_000 }

/** Operations without a body. */
const ASKING = ['get_mouse_position', 'clipboard/read']

describe('the computer calls', () => {
  const tools = [...ACTIONS.map(({ tool }) => tool), ...ASKING, 'clipboard/write', 'screenshot', 'batch']

  test('are the twelve of the published API, and these tests cover all of them', () => {
    const published = JSON.parse(readFileSync(join(PACKAGE_DIR, 'test/data/operations.json'), 'utf8')) as { group: string; path: string }[]
    const paths = published.filter(({ group }) => group === 'Browser Computer Controls').map(({ path }) => path.replace('/browsers/{id}/computer/', ''))
    expect(tools.toSorted()).toEqual(paths.toSorted())
    expect(paths).toHaveLength(12)
  })

  test.each(tools)('%s refuses other methods than POST, and calls without a key', async (tool) => {
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const response = await controls.cloud.fetch(pathOf(tool), { method })
      expect([response.status, response.headers.get('allow')]).toEqual([405, 'POST'])
    }
    expect((await fetch(controls.cloud.url + pathOf(tool), { method: 'POST', body: '{}' })).status).toBe(401)
  })
})

describe.each(ACTIONS)('$tool', ({ tool, schema, right, accepted }) => {
  const rows = [{}, ...accepted].map((change) => ({ title: shown(change), body: { ...right, ...change } }))

  test.each(rows)('with $title succeeds', async ({ body }) => {
    conforms(schema, body)
    const answer = send(tool, body)
    if (tool === 'cursor') {
      const answered = (await (await answer).json()) as unknown
      conforms('ComputerSetCursorVisibilityResponse', answered)
      expect(answered).toEqual({ ok: true })
    } else expect(await outcome(answer)).toEqual(DONE)
  })
})

describe('get_mouse_position', () => {
  test.each([
    ['click_mouse', { x: 11, y: 12 }, { x: 11, y: 12 }],
    ['click_mouse', { x: 13, y: 14, click_type: 'up' }, { x: 13, y: 14 }],
    ['move_mouse', { x: 999, y: 699, smooth: false }, { x: 999, y: 699 }],
    ['move_mouse', { x: 0, y: 0, duration_ms: 50 }, { x: 0, y: 0 }],
    ['move_mouse', { x: 300, y: 200 }, { x: 300, y: 200 }],
    ['scroll', { x: 15, y: 16, delta_y: 5 }, { x: 15, y: 16 }],
    ['drag_mouse', { path: [FIRST, LAST], duration_ms: 50 }, { x: 700, y: 500 }],
    ['drag_mouse', { path: [LAST, FIRST], smooth: false, step_delay_ms: 0 }, { x: 20, y: 30 }],
    ['press_key', { keys: ['Left'] }, { x: 20, y: 30 }],
    ['type', { text: 'a' }, { x: 20, y: 30 }],
  ])('after %s of %o returns %o', async (tool, body, at) => {
    expect(await outcome(send(tool, body))).toEqual(DONE)
    const answered = await controls.pointer()
    conforms('ComputerGetMousePositionResponse', answered)
    expect(answered).toEqual(at)
  })
})

describe('the clipboard calls', () => {
  const read = async () => (await send('clipboard/read')).json() as Promise<{ text: string }>

  test.each(['', 'hello', ' two\nlines\r\n\t', 'Grüße, 日本語, עברית, 🌽👩‍👩‍👧', '\u0001\u001b[A\u007f', '"; drop table\\', '\u2028\ufeff'])(
    'return %j exactly as it was written',
    async (text) => {
      expect(await outcome(send('clipboard/write', { text }))).toEqual(DONE)
      const answered = await read()
      conforms('ComputerReadClipboardResponse', answered)
      expect(answered).toEqual({ text })
    },
  )

  test('accept text up to the limit, also with characters of several bytes', async () => {
    const text = 'é'.repeat(8 * MIB)
    expect(await outcome(send('clipboard/write', { text }))).toEqual(DONE)
    expect((await read()).text === text).toBe(true)
  })
})

describe('calls without required fields', () => {
  test.each(ASKING)('%s accepts no body, an empty body and {}', async (tool) => {
    const answers = await Promise.all([
      send(tool),
      controls.cloud.fetch(pathOf(tool), { method: 'POST', headers: { 'content-type': 'application/json' } }),
      send(tool, {}),
    ])
    for (const { status, headers } of answers) expect([status, headers.get('content-type')]).toEqual([200, 'application/json; charset=utf-8'])
  })
})

describe('a screenshot', () => {
  const size = async (answer: Promise<Response>) => {
    const response = await answer
    const png = Buffer.from(await response.arrayBuffer())
    return [response.status, response.headers.get('content-type'), png.toString('latin1', 1, 4), png.readUInt32BE(16), png.readUInt32BE(20)]
  }

  test('is a PNG of the whole screen for no body, an empty body and {}', async () => {
    expect(await size(send('screenshot'))).toEqual([200, 'image/png', 'PNG', 1000, 700])
    const empty = controls.cloud.fetch(pathOf('screenshot'), { method: 'POST', headers: { 'content-type': 'application/json' } })
    expect(await size(empty)).toEqual([200, 'image/png', 'PNG', 1000, 700])
    expect(await size(send('screenshot', {}))).toEqual([200, 'image/png', 'PNG', 1000, 700])
  })

  test('of a region has the size of the region, also at the last row and column', async () => {
    const whole = { x: 0, y: 0, width: 1000, height: 700 }
    conforms('ComputerCaptureScreenshotParams', { region: whole })
    expect(await size(send('screenshot', { region: whole }))).toEqual([200, 'image/png', 'PNG', 1000, 700])
    expect(await size(send('screenshot', { region: { x: 10, y: 20, width: 30, height: 40 } }))).toEqual([200, 'image/png', 'PNG', 30, 40])
    expect(await size(send('screenshot', { region: { x: 999, y: 699, width: 1, height: 1 } }))).toEqual([200, 'image/png', 'PNG', 1, 1])
  })
})

describe('concurrent callers of one screen', () => {
  test('wait for each other, and a caller that leaves does not block the next', async () => {
    const leaving = new AbortController()
    const long = controls.cloud
      .fetch(pathOf('drag_mouse'), {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(LONG_DRAG),
        signal: leaving.signal,
      })
      .catch((error: Error) => error.name)
    await sleep(UNDER_WAY_MS)
    let answered = false
    const next = send('screenshot', {}).finally(() => (answered = true))
    await sleep(UNDER_WAY_MS)
    expect(answered).toBe(false)
    leaving.abort()
    expect(await long).toBe('AbortError')
    expect((await next).status).toBe(200)
  })

  test('get their own answers, whatever the others do', async () => {
    const points = Array.from({ length: 20 }, (_, index) => ({ x: index, y: 2 * index }))
    const all = points.flatMap((point) => [send('move_mouse', { ...point, smooth: false }), send('type', { text: 'a' }), send('screenshot')])
    expect((await Promise.all(all)).map(({ status }) => status)).toEqual(all.map(() => 200))
    expect(points).toContainEqual(await controls.pointer())
  })
})

describe('a call to a session that is not available', () => {
  test('answers 404 if the session does not exist', async () => {
    for (const id of [newId(), 'nothing', controls.session.session_id.toUpperCase(), 'a%2Fb']) expect((await send('screenshot', {}, id)).status).toBe(404)
  })

  test('answers 400, not 500, if the id is invalid', async () => {
    for (const id of ['%00', 'a%00b', '%ff', '%']) expect((await send('screenshot', {}, id)).status).toBe(400)
  })

  test('answers 404 if the session has ended', async () => {
    const ended = await controls.cloud.create()
    await controls.cloud.fetch(`/browsers/${ended.session_id}`, { method: 'DELETE' })
    expect((await send('screenshot', {}, ended.session_id)).status).toBe(404)
  })

  test('is answered, and does not hang, if the session ends during the call', async () => {
    const ending = await controls.cloud.create()
    const drag = send('drag_mouse', LONG_DRAG, ending.session_id)
    const other = send('screenshot', {}, ending.session_id)
    await sleep(UNDER_WAY_MS)
    expect((await controls.cloud.fetch(`/browsers/${ending.session_id}`, { method: 'DELETE' })).status).toBe(204)
    expect([404, 503]).toContain((await drag).status)
    // Its turn may come just before the end; then it gets a picture.
    expect([200, 404, 503]).toContain((await other).status)
  })
})
