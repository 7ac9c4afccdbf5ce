// A fake model server: a script of the test checks each request and answers it, in order.
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import { serveSockets } from './upstreams.ts'

/** Checks the body of a request and returns the answer. When it throws, the answer is 400. */
// eslint-disable-next-line typescript/no-explicit-any -- bodies of several interfaces
export type Turn = (body: any, path: string) => object | Promise<object>

export interface ModelServer extends AsyncDisposable {
  url: string
  /** @throws what a turn has thrown, or an error when the number of requests is not the number of turns */
  assertPlayed(): void
}

/** Starts the server. A request beyond the last turn gets 400. */
export async function playModel(turns: Turn[]): Promise<ModelServer> {
  let played = 0
  const problems: unknown[] = []
  const server = createServer((request, response) => {
    void (async () => {
      response.setHeader('content-type', 'application/json')
      try {
        const turn = turns[played++]
        const body = JSON.parse(await text(request)) as unknown
        if (!turn) throw new Error(`there were more than ${turns.length} requests; the last one: ${request.url!} ${JSON.stringify(body).slice(0, 2000)}`)
        response.end(JSON.stringify(await turn(body, request.url!)))
      } catch (error) {
        problems.push(error)
        // Not 500, because libraries would retry.
        response.writeHead(400).end(JSON.stringify({ error: { type: 'invalid_request_error', message: String(error) } }))
      }
    })()
  })
  const served = await serveSockets(server)
  return {
    ...served,
    url: `http://127.0.0.1:${served.port}`,
    assertPlayed() {
      if (problems.length > 0) throw problems[0]
      if (played !== turns.length) throw new Error(`the model was asked ${played} times, not ${turns.length}`)
    },
  }
}

const USAGE = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2, input_tokens: 1, output_tokens: 1 }
let made = 0

/** An answer of OpenAI's chat completions whose text is JSON. */
export const completion = (content: object): object => ({
  id: `chatcmpl-${++made}`,
  object: 'chat.completion',
  created: 1,
  model: 'scripted',
  choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: JSON.stringify(content), refusal: null } }],
  usage: USAGE,
})

/** An answer of OpenAI's Responses API. */
export const response = (...output: object[]): object => ({
  id: `resp_${++made}`,
  object: 'response',
  created_at: 1,
  status: 'completed',
  model: 'scripted',
  error: null,
  incomplete_details: null,
  output,
  usage: { ...USAGE, input_tokens_details: { cached_tokens: 0 }, output_tokens_details: { reasoning_tokens: 0 } },
})
export const said = (words: string): object => ({
  id: `msg_${++made}`,
  type: 'message',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text: words, annotations: [] }],
})

/** An answer of Anthropic's Messages API. */
export const message = (...content: object[]): object => ({
  id: `msg_${++made}`,
  type: 'message',
  role: 'assistant',
  model: 'scripted',
  content,
  stop_reason: content.some((block) => 'input' in block) ? 'tool_use' : 'end_turn',
  stop_sequence: null,
  usage: USAGE,
})
