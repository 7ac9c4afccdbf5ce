// Writes the work of the playground as a program of the SDKs that a person can paste and run.
import { examples, type Examples } from '../../ui/code.tsx'

export type Work = { kind: 'playwright'; code: string } | { kind: 'actions'; actions: unknown[] }

/** The options of the session, as in the body of a create. */
export type Options = Record<string, unknown>

const indent = (text: string, by: string): string => text.replaceAll('\n', `\n${by}`)

/** A template literal of JavaScript with exactly this text. */
export const template = (text: string): string => `\`${text.replaceAll('\\', '\\\\').replaceAll('`', '\\`').replaceAll('${', '\\${').replaceAll('\r', '\\r')}\``

/** A long string of Python with exactly this text. */
export const longString = (text: string): string =>
  `"""\\\n${text.replaceAll('\\', '\\\\').replaceAll('"""', '\\"\\"\\"').replaceAll('\r', '\\r').replace(/"$/, '\\"')}"""`

/** A value as JavaScript, for which JSON is valid. */
const js = (value: unknown): string => JSON.stringify(value, undefined, 2)

/** A value as Python. */
export function python(value: unknown, by = ''): string {
  const inner = `${by}    `
  if (value === null || value === undefined) return 'None'
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  if (Array.isArray(value)) return value.length === 0 ? '[]' : `[\n${value.map((each) => `${inner}${python(each, inner)},\n`).join('')}${by}]`
  if (typeof value === 'object') {
    const entries = Object.entries(value)
    return entries.length === 0 ? '{}' : `{\n${entries.map(([key, each]) => `${inner}${JSON.stringify(key)}: ${python(each, inner)},\n`).join('')}${by}}`
  }
  // JSON.stringify leaves characters beyond 16 bits unescaped, which both languages read. An escaped pair would be two characters in Python.
  return JSON.stringify(value)
}

const keywords = (options: Options): string =>
  Object.entries(options)
    .map(([key, value]) => `${key}=${python(value)}`)
    .join(', ')

/** Quotes a text for a shell. */
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

function typescriptOf(options: Options, work: Work): string {
  const made = Object.keys(options).length > 0 ? js(options) : ''
  const body =
    work.kind === 'playwright'
      ? `  const { success, result, error, stdout } = await kernel.browsers.playwright.execute(session.session_id, {
    code: ${template(work.code)},
  })
  if (stdout) console.log(stdout)
  if (!success) throw new Error(error)
  console.log(result)`
      : `  await kernel.browsers.computer.batch(session.session_id, {
    actions: ${indent(js(work.actions), '    ')},
  })
  const picture = await kernel.browsers.computer.captureScreenshot(session.session_id)
  await writeFile('screen.png', Buffer.from(await picture.arrayBuffer()))`
  const head = work.kind === 'actions' ? `import { writeFile } from 'node:fs/promises'\n\n` : ''
  return `${head}const session = await kernel.browsers.create(${made})
try {
${body}
} finally {
  await kernel.browsers.deleteByID(session.session_id)
}`
}

function pythonOf(options: Options, work: Work): string {
  const body =
    work.kind === 'playwright'
      ? `    answer = kernel.browsers.playwright.execute(session.session_id, code=${longString(work.code)})
    if answer.stdout:
        print(answer.stdout)
    if not answer.success:
        raise RuntimeError(answer.error)
    print(answer.result)`
      : `    kernel.browsers.computer.batch(session.session_id, actions=${python(work.actions, '    ')})
    kernel.browsers.computer.capture_screenshot(session.session_id).write_to_file("screen.png")`
  return `session = kernel.browsers.create(${keywords(options)})
try:
${body}
finally:
    kernel.browsers.delete_by_id(session.session_id)`
}

/** `id` is the id of the present session; the lines for curl are for this session only. */
export function codeOf(options: Options, work: Work, id: string): Examples {
  const [path, body] = work.kind === 'playwright' ? ['playwright/execute', { code: work.code }] : ['computer/batch', { actions: work.actions }]
  return examples(
    typescriptOf(options, work),
    pythonOf(options, work),
    `-H "Content-Type: application/json" -d ${quoted(JSON.stringify(body))} $URL/browsers/${id}/${path}`,
  )
}
