// A model is asked about pages without values, and its answers are checked.
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { button, context, input, link, page, password, savedPage } from '../../../../../test/support/page-models.ts'
import { interpretByModel, makeModelInterpreter, ModelAnswer, type ModelInterpreter } from './model.ts'
import { withoutPersonal } from '../../../../base/redact/texts.ts'
import { pageForModel } from './page-for-model.ts'

interface Asked {
  path: string | undefined
  authorization: string | undefined
  body: { model: string; messages: { role: string; content: string }[] }
}

/** A server that gives one answer, and records the requests. */
async function server(answer: { status?: number; text?: string; never?: boolean; location?: string }) {
  const asked: Asked[] = []
  const listener = createServer((request, response) => {
    void textOf(request).then((text) => {
      asked.push({ path: request.url, authorization: request.headers.authorization, body: JSON.parse(text) as Asked['body'] })
      if (answer.never) return
      response.writeHead(answer.status ?? 200, { 'content-type': 'application/json', ...(answer.location && { location: answer.location }) })
      response.end(answer.text ?? '')
    })
  })
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    listener.closeAllConnections()
    listener.close()
  })
  return { asked, url: `http://127.0.0.1:${(listener.address() as AddressInfo).port}/v1` }
}
async function textOf(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request.setEncoding('utf8') as AsyncIterable<string>) text += chunk
  return text
}
const says = (content: string) => JSON.stringify({ choices: [{ message: { role: 'assistant', content } }] })
const never = new AbortController().signal
const PAGE = page([input('Kenn-Nr', { name: 'k' }), password('Geheim'), button('Rein'), link('Hilfe', '/hilfe')])
const ANSWER = {
  kind: 'login',
  confidence: 0.9,
  fields: [
    { ref: '1.0.0', role: 'identifier', key: 'username' },
    { ref: '1.0.1', role: 'password', key: 'password' },
  ],
  submit: '1.0.2',
}

describe('a server', () => {
  test('is asked with the key, for the model, and its answer understood', async () => {
    const { asked, url } = await server({ text: says(`\`\`\`json\n${JSON.stringify(ANSWER)}\n\`\`\``) })
    const interpreter = makeModelInterpreter({ url, key: 'k-1', model: 'small' }, (reason) => expect.fail(reason))
    const found = await interpretByModel(interpreter, PAGE, context(), never)
    expect(found).toMatchObject({ kind: 'login', confidence: 0.7, submit: '1.0.2' })
    expect(found!.fields.map(({ ref, role, host }) => [ref, role, host])).toEqual([
      ['1.0.0', 'identifier', 'example.test'],
      ['1.0.1', 'password', 'example.test'],
    ])
    expect(asked.map(({ path, authorization, body }) => [path, authorization, body.model])).toEqual([['/v1/chat/completions', 'Bearer k-1', 'small']])
    expect(JSON.parse(asked[0]!.body.messages[1]!.content)).toEqual(pageForModel(PAGE))
  })

  test.each([
    ['it answered 503', { status: 503 }],
    ['its answer is in no form that is known', { text: '<html>' }],
    ['its answer is in no form that is known', { text: says('I think it is a login.') }],
    ['its answer is in no form that is known', { text: says(JSON.stringify({ ...ANSWER, kind: 'root' })) }],
    ['its answer is too long', { text: says('x'.repeat(300_000)) }],
    ['it could not be reached', { status: 307, location: 'http://127.0.0.1:9/' }],
  ])('that fails is no answer: %s', async (reason, answer) => {
    const { url } = await server(answer)
    const reasons: string[] = []
    expect(
      await makeModelInterpreter({ url, key: undefined, model: 'a' }, (why) => void reasons.push(why)).interpret(pageForModel(PAGE), never),
    ).toBeUndefined()
    expect(reasons).toEqual([reason])
  })

  test('that never answers is left with its caller', async () => {
    const { asked, url } = await server({ never: true })
    const stop = new AbortController()
    const answer = makeModelInterpreter({ url, key: undefined, model: 'a' }, () => {}).interpret(pageForModel(PAGE), stop.signal)
    await expect.poll(() => asked.length).toBe(1)
    stop.abort(new Error('the flow was canceled'))
    await expect(answer).rejects.toThrow('the flow was canceled')
  })
})

describe('an answer', () => {
  const scripted = (answer: object): ModelInterpreter => ({ interpret: async () => ModelAnswer.parse({ ...ANSWER, ...answer }) })
  test.each([
    ['names controls of another page', { submit: '9.0.9' }],
    ['presses a field', { submit: '1.0.1' }],
    ['types a password where it is seen', { fields: [{ ref: '1.0.0', role: 'password', key: 'password' }] }],
    ['types a name where a password goes', { fields: [{ ref: '1.0.1', role: 'identifier', key: 'username' }] }],
    ['types into a link', { fields: [{ ref: '1.0.3', role: 'text', key: 'a' }] }],
    [
      'has two fields of one key',
      {
        fields: [
          { ref: '1.0.0', role: 'identifier', key: 'a' },
          { ref: '1.0.1', role: 'password', key: 'a' },
        ],
      },
    ],
  ])('that %s is not used', async (_, answer) => {
    expect(await interpretByModel(scripted(answer), PAGE, context(), never)).toBeUndefined()
  })

  test('that types a password into a registration is not used', async () => {
    const model = page([input('Email'), password('Password'), password('Repeat password'), button('Register')])
    const answer = { fields: [{ ref: '1.0.1', role: 'password', key: 'password' }], submit: '1.0.3' }
    expect(await interpretByModel(scripted(answer), model, context(), never)).toBeUndefined()
  })
})

describe('a page that is shown to a model', () => {
  test('has no query strings, addresses, numbers and tokens, and no xpaths', () => {
    const model = page(
      [
        input('Code for jane@canary.test', { described: 'sent to +49 171 CANARY 5550123', name: 'f_9f8e7d6c5b4a39281706canary' }),
        link('Reset', '/reset/9f8e7d6c5b4a39281706canary', { near: 'https://example.test/a?token=canary-1' }),
      ],
      {
        url: 'https://example.test/login/9f8e7d6c5b4a39281706?ticket=canary#canary',
        body: 'We wrote to j***e@canary.test and called •••• 5550123. See https://x.test/?q=canary',
        title: 'Account 5550123',
      },
    )
    const text = JSON.stringify(pageForModel(model))
    expect(text.replaceAll('CANARY', '')).not.toMatch(/canary|5550123|9f8e7d6c|xpath|0123/)
    expect(text).toContain('[address]')
    expect(text).toContain('[number]')
  })
  test('keeps words that are needed to understand it', () => {
    expect(withoutPersonal('Enter the 6-digit code. Step 2 of 3. We value your privacy')).toBe('Enter the 6-digit code. Step 2 of 3. We value your privacy')
    expect(pageForModel(savedPage('django-login')).controls.map(({ label }) => label)).toContain('Username:')
  })
  test('has masks taken out of any length, in a time that grows with the text', () => {
    expect(withoutPersonal('Sent to •••• 92 and ** - 7')).toBe('Sent to [number] and [number]')
    const began = performance.now()
    // An agent sends at most a tenth of this text. Trying each length of a mask at each place would take half a minute.
    expect(withoutPersonal(`${'*'.repeat(100_000)}-`)).toHaveLength(100_001)
    expect(performance.now() - began).toBeLessThan(3_000)
  })
})
