// The tools that run something inside a session: execute_playwright_code, exec_command, browser_curl.
import { curl } from '../../../../agent/curl/contract.ts'
import { playwright } from '../../../../agent/playwright/contract.ts'
import { processes } from '../../../../agent/process/contract.ts'
import { inSession } from '../api.ts'
import { act, tool } from '../tool.ts'

/** Hosts wait a few minutes at most for a tool. */
const USUAL_SECONDS = 60

const hints = { openWorldHint: true }
const session_id = ['id', 'Id or name of the session.'] as const

export const executePlaywrightCode = tool({
  name: 'execute_playwright_code',
  title: 'Run Playwright code in a browser',
  description:
    'Run Playwright code (TypeScript or JavaScript) beside the browser of a session that exists. `page`, `context` and `browser` are in scope, and what the code returns is the result. Return only what you need: the text of one element rather than a whole page. Code that throws answers success false with its error.',
  hints,
  fields: {
    session_id,
    code: "The body of an async function, for example: await page.goto('https://example.com'); return await page.title()",
    timeout_sec: 'The run is stopped after so many seconds.',
  },
  does: inSession(playwright.executePlaywright),
})

export const execCommand = tool({
  name: 'exec_command',
  title: 'Run a program in a browser session',
  description:
    'Run a program inside the sandbox of a browser session, and wait for its end. Answers exit code, standard output and error output. There is no shell unless the command is one: command "sh" with args ["-c", "..."].',
  hints,
  fields: {
    session_id,
    command: 'The program: its path, or a name that is searched in PATH.',
    args: 'Its arguments.',
    cwd: 'The folder that it runs in, as an absolute path. Default: /home/kernel.',
    timeout_sec: `It is ended after so many seconds. Default ${USUAL_SECONDS}.`,
    as_root: 'Run it as root of the sandbox.',
  },
  does: act(inSession(processes.execProcess), {
    with: { body: { timeout_sec: USUAL_SECONDS } },
    answer: ({ stdout_b64, stderr_b64, ...rest }) => {
      const text = (base64: string) => Buffer.from(base64, 'base64').toString()
      return { ...rest, stdout: text(stdout_b64), stderr: text(stderr_b64) }
    },
  }),
})

export const browserCurl = tool({
  name: 'browser_curl',
  title: 'Send an HTTP request from a browser',
  description:
    "Send an HTTP request through the network stack of a session's browser, with its cookies, proxy and headers, without opening a page. A binary answer needs response_encoding base64.",
  hints,
  fields: {
    session_id,
    url: 'An http or https address.',
    method: 'The method.',
    headers: "Added to the browser's own.",
    body: 'Text to send.',
    response_encoding: 'How the body of the answer is told.',
    timeout_ms: 'For the whole request, in milliseconds.',
  },
  does: inSession(curl.curl),
})
