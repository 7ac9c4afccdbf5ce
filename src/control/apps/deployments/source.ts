// The source of a deployment as its caller names it: paths, repositories, references. Each check returns a problem or nothing.
import * as z from 'zod'

const MAX_PATH = 1_024
const MAX_REF = 255
const MAX_TOKEN = 1_024
const PUBLIC_GITHUB = 'https://github.com'

/** The problem of a path inside an archive or a repository. */
export function pathProblem(path: string): string | undefined {
  if (path === '') return 'must not be empty'
  if (path.length > MAX_PATH) return `must have at most ${MAX_PATH} characters`
  if (hasControls(path)) return 'must not hold control characters'
  if (path.startsWith('/') || /^[a-z]:/i.test(path) || path.includes('\\')) return 'must be a relative path with forward slashes'
  if (path.startsWith('-')) return 'must not begin with "-"'
  if (path.split('/').includes('..')) return 'must not lead upwards ("..")'
  return undefined
}

export const entrypointProblem = (path: string): string | undefined => pathProblem(path) ?? (/(^|\/)\.?$/.test(path) ? 'must name a file' : undefined)

/** The clone URL: a repository that callers name on github.com is cloned from `gitBase`. Undefined when it is not a GitHub repository. */
export function cloneUrl(url: string, gitBase: string): string | undefined {
  const base = [PUBLIC_GITHUB, gitBase].find((origin) => url.startsWith(`${origin}/`))
  const name = base === undefined ? undefined : /^\/((?!\.{1,2}\/)[\w.-]+\/(?!\.{1,2}\/?$)[\w.-]+)\/?$/.exec(url.slice(base.length))?.[1]
  return name === undefined ? undefined : `${gitBase}/${name}`
}

/** The problem of a branch, tag or commit (git-check-ref-format(1)). It must not look like an option of git either. */
function refProblem(ref: string): string | undefined {
  if (ref === '' || ref.length > MAX_REF) return `must have 1 to ${MAX_REF} characters`
  if (ref.startsWith('-')) return 'must not begin with "-"'
  if (hasControls(ref) || /[\s~^:?*[\\]|\.\.|@\{|\/\/|^\/|\/$|\.$|\.lock$/.test(ref)) return 'is not the name of a branch, tag or commit'
  return undefined
}

// eslint-disable-next-line no-control-regex
const hasControls = (text: string): boolean => /[\u0000-\u001f\u007f]/.test(text) || !text.isWellFormed()

const isRoot = (path: string): boolean => ['', '.', './'].includes(path)

const checked = (problem: (text: string) => string | undefined) =>
  z.string().superRefine((value, context) => {
    const message = problem(value)
    if (message !== undefined) context.addIssue({ code: 'custom', message })
  })

/** The `source` part of the form. */
export const gitSource = (gitBase: string) =>
  z.strictObject({
    type: z.literal('github'),
    url: checked((url) => (cloneUrl(url, gitBase) === undefined ? `must be ${PUBLIC_GITHUB}/<owner>/<repository>` : undefined)),
    ref: checked(refProblem),
    entrypoint: checked(entrypointProblem),
    /** Empty or "." is the repository's root, as if it were not given. */
    path: checked((path) => (isRoot(path) ? undefined : pathProblem(path)))
      .transform((path) => (isRoot(path) ? undefined : path.replace(/\/+$/, '')))
      .optional(),
    auth: z
      .strictObject({
        method: z.literal('github_token'),
        token: z
          .string()
          .regex(/^[\x21-\x7e]+$/, 'must be printable characters without spaces')
          .max(MAX_TOKEN),
      })
      .optional(),
  })
export type GitSource = z.output<ReturnType<typeof gitSource>>
