// The quick starts with agents and models: each program comes from its page and runs with the published libraries against a real service. A script plays the model and
// checks what it receives.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import sharp from 'sharp'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import type { Cloud } from '../support/cloud.ts'
import { completion, message, playModel, response, said, type Turn } from '../support/model-server.ts'
import { NODE, readQuickstart, runQuickstart, serveExample, type Site } from '../support/quickstarts.ts'
import { shareCloud } from '../support/shared-cloud.ts'

const INSTALLED = join(PACKAGE_DIR, '.cob/quickstarts')
const MODULES = join(INSTALLED, 'npm/node_modules')
const PYTHON = [join(INSTALLED, 'python/bin/python')]

let cloud: Cloud
let site: Site
beforeAll(async () => {
  if (!existsSync(MODULES)) throw new Error(`${MODULES} is missing: run script/test-quickstarts`)
  cloud = await shareCloud()
})
afterAll(() => cloud[Symbol.asyncDispose]())
beforeEach(async () => {
  site = await serveExample()
})
afterEach(() => site[Symbol.asyncDispose]())

/** Runs a page's program with a scripted model. It must print what its page says, and leave no session. */
async function run(page: string, name: string, command: string[], turns: Turn[]): Promise<void> {
  await using model = await playModel(turns)
  const env = {
    OPENAI_API_KEY: 'none',
    OPENAI_BASE_URL: `${model.url}/v1`,
    ANTHROPIC_API_KEY: 'none',
    ANTHROPIC_BASE_URL: model.url,
    ANONYMIZED_TELEMETRY: 'false',
  }
  try {
    expect(await runQuickstart(page, name, { cloud, site, command, modules: MODULES, env })).toBe(readQuickstart(page).output)
  } finally {
    model.assertPlayed()
  }
  expect((await cloud.client.browsers.list()).items).toEqual([])
}

/** The centre of the page's link in a picture of the whole screen; links have this blue. */
async function linkOn(base64: string): Promise<[number, number]> {
  const { data, info } = await sharp(Buffer.from(base64, 'base64')).removeAlpha().raw().toBuffer({ resolveWithObject: true })
  const points: [number, number][] = []
  for (let at = 0; at < data.length; at += 3)
    if (data[at]! < 40 && data[at + 1]! < 40 && data[at + 2]! > 200) points.push([(at / 3) % info.width, Math.floor(at / 3 / info.width)])
  if (points.length < 100) throw new Error('the picture shows no link')
  const middle = (axis: 0 | 1) => Math.round(points.reduce((sum, point) => sum + point[axis], 0) / points.length)
  return [middle(0), middle(1)]
}

test('Playwright for Python', async () => {
  await run('quickstarts/python', 'session.py', PYTHON, [])
  expect(site.paths()).toEqual(['/'])
})

test('AI SDK: the model opens the page, reads it, and answers', async () => {
  const call = (name: string, input: object) => ({
    type: 'function_call',
    id: `fc_${name}`,
    call_id: `call_${name}`,
    name,
    arguments: JSON.stringify(input),
    status: 'completed',
  })
  const results = (body: { input: { type?: string; output?: unknown }[] }) =>
    body.input.filter(({ type }) => type === 'function_call_output').map(({ output }) => JSON.stringify(output))
  await run('quickstarts/ai-sdk', 'agent.mts', NODE, [
    (body, path) => {
      expect([path, body.tools.map(({ name }: { name: string }) => name)]).toEqual(['/v1/responses', ['open', 'read']])
      return response(call('open', { url: `${site.url}/` }))
    },
    (body) => {
      expect(results(body).at(-1)).toMatch(/200.*Example Domain/)
      return response(call('read', {}))
    },
    (body) => {
      expect(results(body).at(-1)).toMatch(/heading.*Example Domain.*link.*Learn more/s)
      return response(said('The heading is "Example Domain".'))
    },
  ])
})

test('browser-use: the agent sees the page that it has opened', async () => {
  const think = (action: object) => completion({ thinking: '', evaluation_previous_goal: '', memory: '', next_goal: '', action: [action] })
  const answer = 'The heading is "Example Domain".'
  await run('quickstarts/browser-use', 'agent.py', PYTHON, [
    (body, path) => {
      expect([path, body.model]).toEqual(['/v1/chat/completions', 'gpt-5.5'])
      return think({ navigate: { url: site.url, new_tab: false } })
    },
    (body) => {
      expect(JSON.stringify(body.messages)).toMatch(/Learn more/)
      return think({ done: { text: answer, success: true, files_to_display: [] } })
    },
    (body) => {
      // browser-use asks the model to judge the result.
      expect(JSON.stringify(body.response_format)).toContain('verdict')
      return completion({ reasoning: '', verdict: true, failure_reason: '', impossible_task: false, reached_captcha: false })
    },
  ])
  expect(site.paths()).toContain('/')
})

test('Stagehand extracts the heading and clicks the link, with a model that it asks from outside of the session', async () => {
  const seen = (body: object) => JSON.stringify(body)
  const turn: Turn = (body) => {
    const wanted = JSON.stringify(body.response_format.json_schema.schema)
    if (wanted.includes('heading')) {
      expect(seen(body.messages)).toContain('Example Domain')
      return completion({ heading: 'Example Domain' })
    }
    if (wanted.includes('elementId')) {
      const elementId = /\[(\d+-\d+)\] link/.exec(seen(body.messages))?.[1]
      expect(elementId).toBeDefined()
      return completion({ twoStep: false, action: { elementId, description: 'the link', method: 'click', arguments: [] } })
    }
    return completion({ progress: 'done', completed: true })
  }
  await run('quickstarts/stagehand', 'stagehand.mts', NODE, [turn, turn, turn])
  expect(site.paths()).toEqual(['/', '/more'])
})

describe('computer use: the model sees the screen, and its click arrives', () => {
  const SAID = 'The link leads to a page about example domains.'

  test('with Anthropic', async () => {
    let calls = 0
    const use = (input: object) => ({ type: 'tool_use', id: `toolu_${++calls}`, name: 'computer', input })
    const picture = (body: { messages: { content: { content: { source: { data: string } }[] }[] }[] }) =>
      body.messages.at(-1)!.content.at(-1)!.content[0]!.source.data
    await run('quickstarts/computer-use-anthropic', 'loop.mts', NODE, [
      (body, path) => {
        expect(path).toMatch(/^\/v1\/messages/)
        expect(body.tools).toEqual([{ type: 'computer_20251124', name: 'computer', display_width_px: 1280, display_height_px: 800 }])
        return message(use({ action: 'wait', duration: 2 }))
      },
      async (body) => message(use({ action: 'left_click', coordinate: await linkOn(picture(body)) }), use({ action: 'no_such_action' })),
      (body) => {
        expect(body.messages.at(-1).content[1]).toMatchObject({ is_error: true, content: 'Error: no_such_action is not supported' })
        return message(
          use({ action: 'key', text: 'ctrl+a' }),
          use({ action: 'scroll', coordinate: [600, 500], scroll_direction: 'down', scroll_amount: 2 }),
          use({ action: 'wait', duration: 2 }),
        )
      },
      async (body) => {
        await expect(linkOn(picture(body))).rejects.toThrow('no link')
        return message({ type: 'text', text: SAID })
      },
    ])
    expect(site.paths()).toEqual(['/', '/more'])
  })

  test('with OpenAI', async () => {
    let calls = 0
    const use = (...actions: object[]) => ({
      type: 'computer_call',
      id: `cu_${++calls}`,
      call_id: `call_${calls}`,
      status: 'completed',
      pending_safety_checks: [],
      actions,
    })
    const picture = (body: { input: { output: { image_url: string } }[] }) => body.input.at(-1)!.output.image_url.replace('data:image/png;base64,', '')
    await run('quickstarts/computer-use-openai', 'loop.mts', NODE, [
      (body, path) => {
        expect([path, body.tools]).toEqual(['/v1/responses', [{ type: 'computer' }]])
        return response(use({ type: 'wait' }, { type: 'wait' }, { type: 'screenshot' }))
      },
      async (body) => {
        expect(body.previous_response_id).toMatch(/^resp_/)
        const [x, y] = await linkOn(picture(body))
        return response(use({ type: 'move', x, y }, { type: 'click', button: 'left', x, y }))
      },
      () => response(use({ type: 'keypress', keys: ['CTRL', 'a'] }, { type: 'scroll', x: 600, y: 500, scroll_x: 0, scroll_y: 300 }, { type: 'wait' })),
      async (body) => {
        await expect(linkOn(picture(body))).rejects.toThrow('no link')
        return response(said(SAID))
      },
    ])
    expect(site.paths()).toEqual(['/', '/more'])
  })
})
