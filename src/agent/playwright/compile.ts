// Callers' code, TypeScript or JavaScript, as a function.
import { stripTypeScriptTypes } from 'node:module'
import vm from 'node:vm'

export type Code = (page: unknown, context: unknown, browser: unknown) => Promise<unknown>

const SCOPE = 'page, context, browser'
/** Names its lines in stacks as the caller counts them. */
const FILE = 'code.ts'
const HEAD = `(async function code(${SCOPE}) {\n`
const TAIL = '\n})'

const AsyncFunction = async function () {}.constructor as new (scope: string, body: string) => unknown

/** @throws SyntaxError with a message for the caller */
export function compile(code: string): Code {
  const body = withoutTypes(code)
  try {
    const script = new vm.Script(HEAD + body + TAIL, {
      filename: FILE,
      lineOffset: -1,
      importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
    })
    // Also alone: what closes the function around it is not its body.
    new AsyncFunction(SCOPE, body)
    return script.runInThisContext() as Code
  } catch (error) {
    throw placed(error as Error, 0)
  }
}

/** JavaScript in which every line is where it was, unless an enum or the like had to be written anew. */
function withoutTypes(code: string): string {
  const strip = (mode: 'strip' | 'transform') => {
    const wrapped = stripTypeScriptTypes(`async function code(${SCOPE}) {\n${code}\n}`, { mode })
    return wrapped.slice(wrapped.indexOf('{') + 1, wrapped.lastIndexOf('}')).replace(/^\n/, '')
  }
  try {
    return strip('strip')
  } catch (error) {
    const { code: kind } = error as { code?: string }
    if (kind === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') return strip('transform')
    if (kind === 'ERR_INVALID_TYPESCRIPT_SYNTAX') throw placed(error as Error, 1)
    throw error
  }
}

/** The error with its line, which the head of its stack tells, counted from the code's first. */
function placed({ message, stack = '' }: Error, linesBefore: number): SyntaxError {
  const line = Number(/^[^\n]*:(\d+)\n/.exec(stack)?.[1]) - linesBefore
  const hint = /'import'|import statement/.test(message) ? '; modules are loaded by `await import(...)`' : ''
  return new SyntaxError(`${message}${line > 0 ? ` (line ${line})` : ''}${hint}`)
}
