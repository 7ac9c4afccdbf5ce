// A tool: calls of the API under names for agents. The parameters of a call and their limits come from its route; a tool adds a sentence for each field.
import * as z from 'zod'
import { toolsetOf, type McpToolset } from '../../../base/mcp-toolsets.ts'
import type { Answer, Callable } from '../../../http/client.ts'
import { checked, fault, type FieldProblem } from '../../../http/fault.ts'
import type { Page } from '../../../http/route.ts'
import { refusalOf, type Api } from './api.ts'
import { either, schemaAt, shown, type Json } from './fields.ts'
import { errorResult, jsonResult, textResult, type Result } from './results.ts'

/** Hints for hosts that ask their user before a call. */
interface Hints {
  readOnlyHint: boolean
  destructiveHint: boolean
  idempotentHint: boolean
  openWorldHint: boolean
}

export interface Tool {
  name: string
  toolset: McpToolset | undefined
  /** The tool's entry in the host's list. */
  listed: { name: string; title: string; description: string; inputSchema: { type: 'object'; [key: string]: unknown }; annotations: Hints & { title: string } }
  /** Runs the tool, without checking the input first. Never throws errors that are meant for callers: those become errors of the tool. */
  call(given: unknown, api: Api): Promise<Result>
}

/** The arguments of a tool. */
// oxlint-disable-next-line typescript/no-explicit-any
export type Given = Record<string, any>
/** The parts of a call. */
export type Parts = Record<(typeof PARTS)[number], Given>
const PARTS = ['params', 'query', 'body'] as const

/** One action of a tool: a call of a route, with the tool's differences; or a function of its own. */
interface Action {
  route?: Callable
  /** Preset parts of every call. */
  with?: Partial<Parts>
  /** Fields of the tool that belong to other actions, although this route has them, too. */
  without?: readonly string[]
  /** Fields that no route has. They are not passed to the call automatically. */
  own?: Record<string, z.ZodType>
  /** Changes the call. @throws fault for fields that contradict each other */
  edit?: (call: Parts, given: Given) => void
  /** The value that the tool returns instead of the route's answer. */
  answer?: (value: never, given: Given) => unknown
  /** Runs instead of a route. */
  run?: (given: Given, api: Api) => Promise<unknown>
}

/** An action that calls a route. */
export const act = <R extends Callable>(
  route: R,
  more: Omit<Action, 'route' | 'run' | 'answer'> & { answer?: (value: Answer<R>, given: Given) => unknown },
): Action => ({ route, ...more })

type ToolSpec = {
  name: string
  title: string
  description: string
  hints?: Partial<Hints>
  /** A sentence for each field, with its path in the routes if that differs; also several paths. */
  fields: Record<string, string | readonly [path: string, words: string]>
  /** False for tools of the whole organization. */
  hasProject?: boolean
} & ({ actions: Record<string, Action | Callable>; does?: undefined } | { /** The only thing that it does. */ does: Action | Callable; actions?: undefined })

const HINTS: Hints = { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: false }

const Project = z.string().min(1).max(255).optional()
const PROJECT = {
  project: Project.describe('Name or id of the project to work in. Without it: the project of the connection, or the default project.'),
  project_id: Project.describe('Deprecated: use project.'),
}

/** A field of an action: its schema, and its place in the call if it has one. */
interface Field {
  name: string
  schema: z.ZodType
  isRequired: boolean
  place?: { part: keyof Parts; path: string[] }
}

/** The tool's fields that an action accepts. */
function fieldsOf({ fields }: ToolSpec, { route, own = {}, without = [], with: preset = {} }: Action): Field[] {
  return Object.entries(fields).flatMap(([name, words]): Field[] => {
    if (own[name]) return [{ name, schema: own[name], isRequired: !own[name].isOptional() }]
    if (!route || without.includes(name)) return []
    for (const path of (typeof words === 'string' ? name : words[0]).split(' ').map((text) => text.split('.')))
      for (const part of PARTS) {
        const found = schemaAt(route[part], path)
        if (found) return [{ name, ...found, isRequired: found.isRequired && !(path[0]! in (preset[part] ?? {})), place: { part, path } }]
      }
    return []
  })
}

const placeOf = ({ name, place }: Field): string => (place ? `${place.part}.${place.path.join('.')}` : name)

/** Most fields that do not belong to an action, and most characters of their names, in one error. */
const MAX_FOREIGN = 100

/** Missing fields, and fields without effect for this action. Fields with the same place are names of the same value. */
function problemsOf(action: string, fields: Field[], given: Given, usedBy: (name: string) => string[]): FieldProblem[] {
  const foreign = Object.keys(given).filter((name) => !fields.some((field) => field.name === name))
  return [
    ...[...Map.groupBy(fields, placeOf).values()].flatMap(([first, ...others]) => {
      const [one, another] = [first!, ...others].filter(({ name }) => given[name] !== undefined)
      if (another) return [{ field: one!.name, problem: `cannot be given together with ${another.name}` }]
      const names = others.map(({ name }) => `, or ${name}`).join('')
      return one || !first!.isRequired ? [] : [{ field: first!.name, problem: `is required${action && ` for ${action}`}${names}` }]
    }),
    ...foreign.slice(0, MAX_FOREIGN).map((name) => ({
      field: name.slice(0, MAX_FOREIGN),
      problem: usedBy(name).length > 0 ? `is not for ${action}, only for ${usedBy(name).join(', ')}` : 'there is no such property',
    })),
    // The route checks the fields of its body.
    ...fields.flatMap(({ name, schema, place }) => (given[name] === undefined || place?.part === 'body' ? [] : checked(schema, given[name], name).problems)),
  ]
}

/** The call of an action with these arguments. */
function callOf(fields: Field[], given: Given, preset: Partial<Parts>): Parts {
  const call: Parts = { params: { ...preset.params }, query: { ...preset.query }, body: { ...preset.body } }
  for (const { name, place } of fields) {
    if (!place || given[name] === undefined) continue
    let at: Given = call[place.part]
    for (const [index, key] of place.path.slice(0, -1).entries()) at = at[key] ??= place.path[index + 1] === '0' ? [] : {}
    at[place.path.at(-1)!] = given[name]
  }
  return call
}

/** A route's message with the field names of the tool. A message about an object is given for all its fields. */
function renamed(message: string, fields: readonly Field[]): string {
  return message.replaceAll(/(?<=^|; )[\w.]+(?=: )/g, (path) => {
    const named = (isThere: (own: string) => boolean) => fields.filter(({ place }) => place && isThere(place.path.join('.'))).map(({ name }) => name)
    const [exact] = named((own) => own === path)
    return (exact ?? named((own) => own.startsWith(`${path}.`)).join(', ')) || path
  })
}

export function tool(spec: ToolSpec): Tool {
  const { name, title, description, hints, hasProject = true } = spec
  const actions = new Map(
    Object.entries(spec.actions ?? { '': spec.does }).map(([called, one]) => {
      const action: Action = 'path' in one ? { route: one } : one
      return [called, { ...action, fields: fieldsOf(spec, action) }]
    }),
  )
  const usedBy = (field: string) => [...actions].filter(([, { fields }]) => fields.some((one) => one.name === field)).map(([called]) => called)

  function properties(): Json {
    const all = [...actions.values()].flatMap(({ fields }) => fields)
    const described = Object.entries(spec.fields).map(([field, words]) => {
      const schemas = all.filter((one) => one.name === field).map(({ schema }) => shown(schema))
      const usual = schemas.map((schema) => schema.default).find(isSaid)
      const text = typeof words === 'string' ? words : words[1]
      const schema = schemas.map(({ default: _, ...rest }) => rest).reduce(either)
      const parts = [spec.actions ? `(${usedBy(field).join(', ')})` : '', text, usual === undefined ? '' : `Default ${usual}.`]
      return [field, { ...schema, description: parts.filter((part) => part !== '').join(' ') }]
    })
    const projects = hasProject ? Object.entries(PROJECT).map(([field, schema]) => [field, shown(schema)]) : []
    const action = { type: 'string', enum: [...actions.keys()], description: 'What to do.' }
    return { ...(spec.actions && { action }), ...Object.fromEntries([...projects, ...described]) }
  }
  const required = spec.actions ? ['action'] : actions.get('')!.fields.flatMap((field) => (field.isRequired ? field.name : []))
  const inputSchema = { type: 'object' as const, properties: properties(), ...(required.length > 0 && { required }), additionalProperties: false }

  async function run(called: string, all: Given, api: Api): Promise<Result> {
    const { fields, route, run: own, edit, answer, with: preset = {} } = actions.get(called)!
    const isOwn = (name: string) => fields.some((field) => field.name === name && !field.place)
    const others = Object.entries(all).filter(([field]) => !(hasProject && field in PROJECT))
    const given: Given = Object.fromEntries(others.map(([field, value]) => [field, isOwn(field) ? withoutNulls(value) : value]))
    const { project, project_id: id } = hasProject ? (all as { project?: string; project_id?: string }) : {}
    const problems = [
      ...problemsOf(called, fields, given, usedBy),
      ...Object.entries({ project, project_id: id }).flatMap(([field, value]) => checked(PROJECT.project, value, field).problems),
    ]
    if (problems.length > 0) throw fault.invalid(problems)
    if (project !== undefined && id !== undefined && project !== id) throw fault.field('project_id', 'is deprecated, and cannot differ from project')
    const inProject = api.forProject(project ?? id)
    if (own) return resultOf(await own(given, inProject))
    const call = callOf(fields, given, preset)
    edit?.(call, given)
    const value = (await inProject.call(route!, call as never)) as never
    return resultOf(answer ? answer(value, given) : (value ?? `The action ${called} is done.`))
  }

  return {
    name,
    toolset: toolsetOf(name),
    listed: { name, title, description, inputSchema, annotations: { title, ...HINTS, ...hints } },
    async call(given, api) {
      let called = ''
      try {
        // Hosts send null for fields that they do not set.
        const { action, ...rest } = Object.fromEntries(Object.entries((given ?? {}) as object).filter(([, value]) => value !== null)) as Given
        if (spec.actions && !actions.has(action as string)) throw fault.field('action', `must be one of ${[...actions.keys()].join(', ')}`)
        if (spec.actions) called = action as string
        return await run(called, spec.actions || action === undefined ? rest : { action, ...rest }, api)
      } catch (error) {
        const reason: unknown = api.signal.aborted ? api.signal.reason : error
        const known = refusalOf(reason)
        // Other errors end the call, and are logged.
        if (!known) throw reason
        return errorResult(`Error in ${name}${called && ` (${called})`}: ${renamed(known.message, actions.get(called)?.fields ?? [])} [code: ${known.code}]`)
      }
    },
  }
}

/** Whether the description should mention a default. */
const isSaid = (value: unknown): value is string | number | true => typeof value === 'string' || value === true || (typeof value === 'number' && value !== 0)

/** A value without nulls in objects. Routes do the same with their bodies. */
const withoutNulls = (given: unknown): unknown => JSON.parse(JSON.stringify(given), (_, value: unknown) => (value === null ? undefined : value))

/** The result of a tool: a text, content, or a value as JSON. Every list has the same form. */
function resultOf(value: unknown): Result {
  if (typeof value === 'string') return textResult(value)
  if (Array.isArray(value)) return jsonResult(itemsOf({ items: value, nextOffset: undefined }))
  if (typeof value !== 'object' || value === null) return jsonResult(value)
  if ('content' in value) return value as Result
  return jsonResult('nextOffset' in value ? itemsOf(value as Page<unknown>) : value)
}

/** A page of a list in the form for tools. */
export const itemsOf = <T>({ items, nextOffset }: Page<T>) => ({ items, has_more: nextOffset !== undefined, next_offset: nextOffset ?? null })
