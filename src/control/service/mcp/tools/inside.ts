// The tools that run something inside a session: execute_playwright_code, exec_command, browser_curl.
import { z } from 'zod'
import { curl, CurlBody } from '../../../../agent/curl/contract.ts'
import { playwright } from '../../../../agent/playwright/contract.ts'
import { ExecBody, processes } from '../../../../agent/process/contract.ts'
import { jsonResult } from '../results.ts'
import { field, single } from '../tool.ts'

/** Hosts wait a few minutes for a tool at most. */
const DEFAULT_SECONDS = 60
const MOST_SECONDS = 150

const session_id = z.string().min(1).describe('Id or name of the session.')
const hints = { openWorldHint: true }

export const executePlaywrightCode = single(
  {
    name: 'execute_playwright_code',
    toolset: 'playwright',
    title: 'Run Playwright code in a browser',
    description:
      'Run Playwright code (TypeScript or JavaScript) beside the browser of a session that exists. `page`, `context` and `browser` are in scope, and what the code returns is the result. Return only what you need: the text of one element rather than a whole page. Code that throws answers success false with its error.',
    hints,
    needs: ['session_id', 'code'],
    fields: {
      session_id,
      code: field(
        playwright.executePlaywright.body.shape.code,
        "The body of an async function, for example: await page.goto('https://example.com'); return await page.title()",
      ),
      timeout_sec: z.int().min(1).max(MOST_SECONDS).describe(`The run is stopped after so many seconds. Default ${DEFAULT_SECONDS}.`),
    },
  },
  async ({ session_id: session, code, timeout_sec = DEFAULT_SECONDS }, api) =>
    jsonResult(await api.inside(session, playwright.executePlaywright, { body: { code, timeout_sec } })),
)

export const execCommand = single(
  {
    name: 'exec_command',
    toolset: 'shell',
    title: 'Run a program in a browser session',
    description:
      'Run a program inside the sandbox of a browser session, and wait for its end. Answers exit code, standard output and error output. There is no shell unless the command is one: command "sh" with args ["-c", "..."].',
    hints,
    needs: ['session_id', 'command'],
    fields: {
      session_id,
      command: field(ExecBody.shape.command, 'The program: its path, or a name that is searched in PATH.'),
      args: field(ExecBody.shape.args, 'Its arguments.'),
      cwd: field(ExecBody.shape.cwd, 'The folder that it runs in, as an absolute path. Default: /home/kernel.'),
      timeout_sec: z.int().min(1).max(MOST_SECONDS).describe(`It is ended after so many seconds. Default ${DEFAULT_SECONDS}.`),
      as_root: field(ExecBody.shape.as_root, 'Run it as root of the sandbox.'),
    },
  },
  async ({ session_id: session, timeout_sec = DEFAULT_SECONDS, ...program }, api) => {
    const { stdout_b64, stderr_b64, ...rest } = await api.inside(session, processes.execProcess, {
      body: { ...program, timeout_sec } as z.input<typeof ExecBody>,
    })
    const text = (base64: string) => Buffer.from(base64, 'base64').toString()
    return jsonResult({ ...rest, stdout: text(stdout_b64), stderr: text(stderr_b64) })
  },
)

export const browserCurl = single(
  {
    name: 'browser_curl',
    toolset: 'browser_curl',
    title: 'Send an HTTP request from a browser',
    description:
      "Send an HTTP request through the network stack of a session's browser, with its cookies, proxy and headers, without opening a page. A binary answer needs response_encoding base64.",
    hints,
    needs: ['session_id', 'url'],
    fields: {
      session_id,
      url: field(CurlBody.shape.url, 'An http or https address.'),
      method: field(CurlBody.shape.method, 'Default GET.'),
      headers: field(CurlBody.shape.headers, "Added to the browser's own."),
      body: field(CurlBody.shape.body, 'Text to send.'),
      response_encoding: field(CurlBody.shape.response_encoding, 'How the body of the answer is told.'),
      timeout_ms: field(CurlBody.shape.timeout_ms, 'For the whole request, in milliseconds. Default 30000.'),
    },
  },
  async ({ session_id: session, ...request }, api) => jsonResult(await api.inside(session, curl.curl, { body: request as z.input<typeof CurlBody> })),
)
