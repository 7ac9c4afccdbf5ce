// What a tool is: its input, made of fields; and its actions, each with the fields that it needs and takes.
import { z } from 'zod'
import type { McpToolset } from '../../../base/mcp-toolsets.ts'
import { checked, Fault, fault, type FieldProblem } from '../../../http/fault.ts'
import { withoutNulls } from '../../../http/not-given.ts'
import { Refused, type Api } from './api.ts'
import { errorResult, type Result } from './results.ts'

export type Fields = Record<string, z.ZodType>

/** Hints for hosts that ask their user first. */
interface Hints {
  readOnlyHint: boolean
  destructiveHint: boolean
  idempotentHint: boolean
  openWorldHint: boolean
}

export interface Tool {
  name: string
  toolset: McpToolset | undefined
  /** As hosts list it. */
  listed: { name: string; title: string; description: string; inputSchema: { type: 'object'; [key: string]: unknown }; annotations: Hints & { title: string } }
  /** Never throws: whatever fails is told as an error of the tool. */
  call(given: unknown, api: Api): Promise<Result>
}

/** One action, which gets what was given of its fields, checked. */
interface Action {
  needs: readonly string[]
  takes: readonly string[]
  run(input: never, api: Api): Promise<Result>
}

type Given<F extends Fields, N extends keyof F, T extends keyof F> = { [K in N]: z.input<F[K]> } & { [K in T]?: z.input<F[K]> | undefined }

type On<F extends Fields> = <const N extends (keyof F & string)[] = [], const T extends (keyof F & string)[] = []>(
  fields: { needs?: N; takes?: T },
  run: (input: Given<F, N[number], T[number]>, api: Api) => Promise<Result>,
) => Action

interface ToolSpec<F extends Fields> {
  name: string
  toolset?: McpToolset
  title: string
  description: string
  hints?: Partial<Hints>
  /** By name, each with a description. */
  fields: F
  /** False for tools of the whole organization. */
  hasProject?: boolean
  /** The fields by what the API calls them in its errors. */
  asFields?: Readonly<Record<string, string>>
}

const HINTS: Hints = { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: false }

const PROJECT = {
  project: z.string().min(1).max(255).describe('Name or id of the project to work in. Without it: the project of the connection, or the default project.'),
  project_id: z.string().min(1).max(255).describe('Deprecated: use project.'),
}

/** Pages of lists. */
export const paging = {
  limit: z.int().min(1).max(100).describe('Most results of one page.'),
  offset: z.int().min(0).max(1_000_000_000).describe('Where the page begins: next_offset of the page before.'),
}

/** The schema of a field of a contract without its default, which the route itself applies, and without being optional. */
export function field<S extends z.ZodType>(schema: S, description: string): z.ZodType<NonNullable<z.output<S>>, NonNullable<z.input<S>>> {
  let bare: z.ZodType = schema
  while (bare instanceof z.ZodOptional || bare instanceof z.ZodDefault || bare instanceof z.ZodNullable) bare = bare.unwrap() as z.ZodType
  return bare.describe(description) as never
}

/** A tool whose field `action` says what is done. */
export function tool<F extends Fields>(spec: ToolSpec<F>, actionsOf: (on: On<F>) => Record<string, Action>): Tool {
  const actions = actionsOf(({ needs = [], takes = [] }, run) => ({ needs, takes, run }) as never)
  const names = Object.keys(actions)
  const usedBy = (name: string) => names.filter((action) => [...actions[action]!.needs, ...actions[action]!.takes].includes(name))
  const described = Object.fromEntries(
    Object.entries(spec.fields).map(([name, schema]) => [name, schema.describe(`(${usedBy(name).join(', ')}) ${schema.description ?? ''}`).optional()]),
  )
  const schema = z.strictObject({ action: z.enum(names as [string, ...string[]]).describe('What to do.'), ...projectFields(spec), ...described })
  return make(spec, schema, (input) => {
    const name = input.action as string
    const action = actions[name]!
    const isUsed = new Set(['action', ...Object.keys(PROJECT), ...action.needs, ...action.takes])
    const problems: FieldProblem[] = [
      ...action.needs.filter((needed) => input[needed] === undefined).map((needed) => ({ field: needed, problem: `is required for ${name}` })),
      ...Object.keys(input)
        .filter((given) => !isUsed.has(given))
        .map((given) => ({ field: given, problem: `is not for ${name}, only for ${usedBy(given).join(', ')}` })),
    ]
    if (problems.length > 0) throw fault.invalid(problems)
    return { name, run: ({ action: _, ...given }, api) => action.run(given as never, api) }
  })
}

/** A tool that does one thing. */
export function single<F extends Fields, const N extends (keyof F & string)[]>(
  spec: ToolSpec<F> & { needs: N },
  run: (input: Given<F, N[number], Exclude<keyof F, N[number]>>, api: Api) => Promise<Result>,
): Tool {
  const fields = Object.fromEntries(Object.entries(spec.fields).map(([name, schema]) => [name, spec.needs.includes(name) ? schema : schema.optional()]))
  return make(spec, z.strictObject({ ...projectFields(spec), ...fields }), () => ({ name: undefined, run: run as never }))
}

const projectFields = ({ hasProject = true }: { hasProject?: boolean }) =>
  hasProject ? { project: PROJECT.project.optional(), project_id: PROJECT.project_id.optional() } : {}

type Input = Record<string, unknown>

function make<F extends Fields>(
  spec: ToolSpec<F>,
  schema: z.ZodType,
  chosen: (input: Input) => { name: string | undefined; run: (input: Input, api: Api) => Promise<Result> },
): Tool {
  const { $schema: _, ...inputSchema } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any', reused: 'inline' }) as {
    type: 'object'
    $schema?: string
  }
  const { name, title, description, toolset, hints, hasProject = true, asFields = {} } = spec
  return {
    name,
    toolset,
    listed: { name, title, description, inputSchema, annotations: { title, ...HINTS, ...hints } },
    async call(given, api) {
      let doing: string | undefined
      try {
        const input = withoutNulls(schema, given ?? {}) as Input
        const { problems } = checked(schema, input)
        if (problems.length > 0) throw fault.invalid(problems)
        const { name: action, run } = chosen(input)
        doing = action
        const { project, project_id: id, ...rest } = input
        if (!hasProject) return await run(input, api)
        if (project !== undefined && id !== undefined && project !== id) throw fault.field('project_id', 'is deprecated, and cannot differ from project')
        return await run(rest, api.forProject((project ?? id) as string | undefined))
      } catch (error) {
        return refusal(name, doing, api, error, asFields)
      }
    },
  }
}

/** What a failed call answers. What is not meant for callers ends the call instead, and is logged. */
function refusal(name: string, action: string | undefined, api: Api, error: unknown, asFields: Readonly<Record<string, string>>): Result {
  const reason: unknown = api.signal.aborted ? api.signal.reason : error
  const known = reason instanceof Refused || reason instanceof Fault ? reason : undefined
  if (!known) throw reason
  const message = known.message.replaceAll(/(?<=^|; )[\w.]+(?=: )/g, (field) => asFields[field] ?? field)
  return errorResult(`Error in ${name}${action === undefined ? '' : ` (${action})`}: ${message} [code: ${known.code}]`)
}
