// Compiles callers' code, TypeScript or JavaScript, into a function.
import { stripTypeScriptTypes } from 'node:module'
import vm from 'node:vm'

export type Code = (page: unknown, context: unknown, browser: unknown) => Promise<unknown>

const SCOPE = 'page, context, browser'
/** The file name in stack traces. Line numbers are those of the caller's code. */
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
    // Compile the body alone too: code that closes the wrapping function early would compile above.
    new AsyncFunction(SCOPE, body)
    return script.runInThisContext() as Code
  } catch (error) {
    throw placed(error as Error, 0)
  }
}

/** JavaScript with every line at its old number, unless the code has enums or other syntax that must be transformed. */
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

/** The error with its line, counted from the first line of the code. The line is in the head of the stack. */
function placed({ message, stack = '' }: Error, linesBefore: number): SyntaxError {
  const line = Number(/^[^\n]*:(\d+)\n/.exec(stack)?.[1]) - linesBefore
  const hint = /'import'|import statement/.test(message) ? '; load modules with `await import(...)`' : ''
  return new SyntaxError(`${message}${line > 0 ? ` (line ${line})` : ''}${hint}`)
}
