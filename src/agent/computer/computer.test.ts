// Computer controls as callers reach them: forwarded through the control plane to the agent's real routes over a pretended screen.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { conforms } from '../../../test/support/contract.ts'
import { startFastCloud, type FastCloud, type Session } from '../../../test/support/fast-cloud.ts'
import { newId } from '../../base/ids.ts'
import { sleep } from '../../base/wait.ts'

/** An action that is refused is refused before it begins; one that is not takes minutes. */
const REFUSED_MS = 5_000
/** Until a call that was just sent has reached the agent. */
const UNDER_WAY_MS = 100

let cloud: FastCloud
let session: Session
beforeAll(async () => {
  cloud = await startFastCloud()
  session = await cloud.create({ timeout_seconds: 3600, viewport: { width: 1000, height: 700 } })
})
afterAll(() => cloud[Symbol.asyncDispose]())

const send = (tool: string, body: unknown, id = session.session_id) =>
  cloud.fetch(`/browsers/${id}/computer/${tool}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(REFUSED_MS),
  })

/** The fields that a refused call names. */
async function named(answer: Promise<Response>): Promise<string[]> {
  const response = await answer
  const body = (await response.json()) as { message: string; details?: { message: string }[] }
  conforms('ErrorModel', body)
  if (response.status !== 400) throw new Error(`answered ${response.status}: ${body.message}`)
  return (body.details ?? []).map(({ message }) => message.split(':', 1)[0]!).toSorted()
}

describe('a screenshot', () => {
  const size = async (answer: Promise<Response>) => {
    const response = await answer
    const png = Buffer.from(await response.arrayBuffer())
    return [response.status, response.headers.get('content-type'), png.toString('latin1', 1, 4), png.readUInt32BE(16), png.readUInt32BE(20)]
  }

  test('is a PNG of the whole screen: with no body, an empty one, and {}', async () => {
    const path = `/browsers/${session.session_id}/computer/screenshot`
    expect(await size(cloud.fetch(path, { method: 'POST' }))).toEqual([200, 'image/png', 'PNG', 1000, 700])
    expect(await size(cloud.fetch(path, { method: 'POST', headers: { 'content-type': 'application/json' } }))).toEqual([200, 'image/png', 'PNG', 1000, 700])
    expect(await size(send('screenshot', {}))).toEqual([200, 'image/png', 'PNG', 1000, 700])
  })

  test('of a region has the size of the region, up to the last row and column', async () => {
    expect(await size(send('screenshot', { region: { x: 10, y: 20, width: 30, height: 40 } }))).toEqual([200, 'image/png', 'PNG', 30, 40])
    expect(await size(send('screenshot', { region: { x: 999, y: 699, width: 1, height: 1 } }))).toEqual([200, 'image/png', 'PNG', 1, 1])
  })

  test.each([
    [{ x: 1000, y: 0, width: 1, height: 1 }, ['region.x']],
    [{ x: 0, y: 700, width: 1, height: 1 }, ['region.y']],
    [{ x: 999, y: 0, width: 2, height: 1 }, ['region.width']],
    [{ x: 0, y: 0, width: 1000, height: 701 }, ['region.height']],
    [{ x: -1, y: 0.5, width: 0, height: '1' }, ['region.height', 'region.width', 'region.x', 'region.y']],
    [{ x: 0, y: 0, width: 1, height: 1, depth: 1 }, ['region.depth']],
    [{ x: 0, y: 0 }, ['region.height', 'region.width']],
  ])('of the region %j is refused, naming the side', async (region, fields) => {
    expect(await named(send('screenshot', { region }))).toEqual(fields)
  })

  test('takes no options that it does not have', async () => {
    expect(await named(send('screenshot', { format: 'jpeg' }))).toEqual(['format'])
  })
})

describe('a drag', () => {
  test.each([
    {
      path: [
        [0, 0],
        [999, 699],
      ],
      duration_ms: 50,
    },
    {
      path: [
        [5, 5],
        [5, 5],
      ],
      duration_ms: 50,
    },
    {
      path: [
        [0, 0],
        [10, 10],
        [20, 0],
      ],
      smooth: false,
      steps_per_segment: 1,
      step_delay_ms: 0,
      button: 'middle',
      hold_keys: ['ctrl', 'Shift_L', 'a'],
    },
  ])('%j is done, and answers an empty 200', async (body) => {
    const response = await send('drag_mouse', body)
    expect([response.status, response.headers.get('content-length'), await response.text()]).toEqual([200, '0', ''])
  })

  test.each([
    [{}, ['path']],
    [{ path: [] }, ['path']],
    [{ path: [[1, 1]] }, ['path']],
    [{ path: [[1, 1], [2]] }, ['path.1']],
    [
      {
        path: [
          [1, 1],
          [2, 2, 2],
        ],
      },
      ['path.1'],
    ],
    [
      {
        path: [
          [1, 1],
          [2.5, 2],
        ],
      },
      ['path.1.0'],
    ],
    [
      {
        path: [
          [1, 1],
          [1000, 2],
        ],
      },
      ['path.1.0'],
    ],
    [
      {
        path: [
          [1, 700],
          [1, 2],
        ],
      },
      ['path.0.1'],
    ],
    [
      {
        path: [
          [1, 1],
          [-1, 2],
        ],
      },
      ['path.1.0'],
    ],
    [{ path: Array.from({ length: 1001 }, () => [1, 1]) }, ['path']],
    [
      {
        path: [
          [1, 1],
          [2, 2],
        ],
        button: 'back',
      },
      ['button'],
    ],
    [
      {
        path: [
          [1, 1],
          [2, 2],
        ],
        duration_ms: 49,
      },
      ['duration_ms'],
    ],
    [
      {
        path: [
          [1, 1],
          [2, 2],
        ],
        duration_ms: 10_001,
      },
      ['duration_ms'],
    ],
    [
      {
        path: [
          [1, 1],
          [2, 2],
        ],
        delay: -1,
      },
      ['delay'],
    ],
    [
      {
        path: [
          [1, 1],
          [2, 2],
        ],
        steps_per_segment: 0,
      },
      ['steps_per_segment'],
    ],
    [
      {
        path: [
          [1, 1],
          [2, 2],
        ],
        step_delay_ms: -1,
      },
      ['step_delay_ms'],
    ],
    [
      {
        path: [
          [1, 1],
          [2, 2],
        ],
        hold_keys: ['NoSuchKey'],
      },
      ['hold_keys.0'],
    ],
    [
      {
        path: [
          [1, 1],
          [2, 2],
        ],
        hold_keys: 'ctrl',
      },
      ['hold_keys'],
    ],
    [
      {
        path: [
          [1, 1],
          [2, 2],
        ],
        speed: 3,
      },
      ['speed'],
    ],
  ])('%j is refused, naming what is wrong', async (body, fields) => {
    expect(await named(send('drag_mouse', body))).toEqual(fields)
  })

  // The longest action is five minutes; a call that would be cut off in the middle leaves a page half dragged.
  test.each([
    [
      'by its pause before it moves',
      {
        path: [
          [1, 1],
          [2, 2],
        ],
        delay: 300_001,
      },
    ],
    [
      'by its steps',
      {
        path: [
          [1, 1],
          [2, 2],
        ],
        smooth: false,
        steps_per_segment: 6_001,
        step_delay_ms: 50,
      },
    ],
    [
      'by pause and steps together',
      {
        path: [
          [1, 1],
          [2, 2],
        ],
        smooth: false,
        delay: 200_000,
        steps_per_segment: 4_000,
        step_delay_ms: 50,
      },
    ],
    ['by the way of a hand through a thousand points', { path: Array.from({ length: 1_000 }, (_, index) => (index % 2 === 0 ? [0, 0] : [999, 699])) }],
    ['by pause and the way of a hand together', { path: Array.from({ length: 400 }, (_, index) => (index % 2 === 0 ? [0, 0] : [999, 699])), delay: 200_000 }],
  ])('that would take longer than the longest action, %s, is refused before it begins', async (_, body) => {
    expect(await named(send('drag_mouse', body))).not.toEqual([])
  })
})

describe('callers of the same screen', () => {
  test('wait for each other, and one that leaves does not hold up the next', async () => {
    const leaving = new AbortController()
    const path = `/browsers/${session.session_id}/computer/drag_mouse`
    const long = cloud
      .fetch(path, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          path: [
            [0, 0],
            [10, 10],
          ],
          delay: 60_000,
        }),
        signal: leaving.signal,
      })
      .catch((error: Error) => error.name)
    const next = send('screenshot', {})
    leaving.abort()
    expect(await long).toBe('AbortError')
    expect((await next).status).toBe(200)
  })
})

describe('a session that cannot be reached', () => {
  test('because there is none answers 404', async () => {
    for (const id of [newId(), 'nothing', session.session_id.toUpperCase(), 'a%2Fb']) expect((await send('screenshot', {}, id)).status).toBe(404)
  })

  test('because its id cannot be one answers 400 and not 500', async () => {
    for (const id of ['%00', 'a%00b', '%ff', '%']) expect((await send('screenshot', {}, id)).status).toBe(400)
  })

  test('because it has ended answers 404', async () => {
    const ended = await cloud.create()
    await cloud.fetch(`/browsers/${ended.session_id}`, { method: 'DELETE' })
    expect((await send('screenshot', {}, ended.session_id)).status).toBe(404)
  })

  test('that ends under a call answers the call, and does not leave it hanging', async () => {
    const ending = await cloud.create()
    const drag = send(
      'drag_mouse',
      {
        path: [
          [0, 0],
          [10, 10],
        ],
        delay: 60_000,
      },
      ending.session_id,
    )
    const other = send('screenshot', {}, ending.session_id)
    await sleep(UNDER_WAY_MS)
    expect((await cloud.fetch(`/browsers/${ending.session_id}`, { method: 'DELETE' })).status).toBe(204)
    expect([404, 503]).toContain((await drag).status)
    expect([404, 503]).toContain((await other).status)
  })
})
