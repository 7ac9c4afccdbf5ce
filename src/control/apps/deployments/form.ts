// The form of a deployment, read as it arrives: the archive goes to the object store, everything else is checked.
import { badText } from '../../../http/body.ts'
import { checked, fault, type FieldProblem } from '../../../http/fault.ts'
import { withoutNulls } from '../../../http/not-given.ts'
import type { FormPart } from '../../../http/route.ts'
import type { Objects, Stored } from '../../../store/objects.ts'
import { Region } from '../apps/contract.ts'
import { storeUpload } from '../../service/uploads.ts'
import { entrypointProblem, gitSource, type GitSource } from './source.ts'
import { parse, Variables } from './variables.ts'

/** The largest archive. Its unpacked size is limited where it is built. */
export const MAX_ARCHIVE_BYTES = 512 * 1024 * 1024
const MAX_VERSION = 255

export interface DeploymentForm {
  /** For an archive: the object that holds it. */
  archive: (Stored & { key: string }) | undefined
  source: GitSource | undefined
  entrypoint: string
  version: string
  force: boolean
  variables: Record<string, string>
}

export interface FormSettings {
  objects: Objects
  /** Key for the archive. The caller removes the object when the deployment is refused. */
  key: string
  gitBase: string
  maxArchiveBytes: number
}

const SCALARS = ['entrypoint_rel_path', 'version', 'force', 'region', 'source', 'env_vars']

/** Reads a whole form, its parts in any order. @throws 400 that names every wrong field, 413; an archive may have been stored then */
export async function readDeploymentForm(parts: AsyncIterable<FormPart>, settings: FormSettings, signal: AbortSignal): Promise<DeploymentForm> {
  const problems: FieldProblem[] = []
  const complain = (field: string, problem: string) => void problems.push({ field, problem })
  const texts = new Map<string, string>()
  const variables = new Variables((name, problem) => complain(name === '' ? 'env_vars' : `env_vars[${name}]`, problem))
  let archive: DeploymentForm['archive']
  let hasFile = false
  let fields: Fields | undefined

  for await (const part of parts) {
    const { name } = part
    const variable = variableOf(name)
    const sourceField = sourceFieldOf(name)
    if (name === 'file') {
      if (hasFile) complain(name, 'is given twice')
      else if (!('content' in part)) complain(name, 'must be a file: a part with a filename')
      hasFile = true
      // After an error in the form, no more of it is stored.
      if ('content' in part && problems.length > 0) part.content.resume()
      else if ('content' in part)
        archive = { key: settings.key, ...(await storeUpload(settings.objects, settings.key, part.content, settings.maxArchiveBytes, signal)) }
    } else if (variable === undefined && sourceField === undefined && !SCALARS.includes(name)) {
      complain(shorten(name), 'there is no such part')
      if ('content' in part) part.content.resume()
    } else if ('content' in part) {
      complain(name, 'must be text, not a file')
      part.content.resume()
    } else if (variable !== undefined) variables.add(variable, part.value)
    else if (badText(part.value)) complain(name, 'must not hold U+0000')
    else if (sourceField !== undefined) {
      if (!put((fields ??= emptyFields()), sourceField, part.value)) complain(`source.${sourceField.join('.')}`, 'is given twice')
    } else if (texts.has(name)) complain(name, 'is given twice')
    // A form has no null: clients send an empty text for a field that they do not set.
    else if (part.value !== '') texts.set(name, part.value)
  }
  if (archive?.bytes === 0) complain('file', 'is empty')
  const json = texts.get('env_vars')
  if (json !== undefined) variables.addAll(json)

  const force = texts.get('force') ?? 'false'
  if (force !== 'true' && force !== 'false') complain('force', 'must be true or false')
  const version = texts.get('version') ?? 'latest'
  if (version.length > MAX_VERSION) complain('version', `must have 1 to ${MAX_VERSION} characters`)
  if ((texts.get('region') ?? Region.value) !== Region.value) complain('region', `must be ${Region.value}`)
  const sourceText = texts.get('source')
  if (sourceText !== undefined && fields) complain('source', 'is given twice: as JSON and by its fields')
  const sent = sourceText === undefined ? fields : parse(sourceText)
  const hasSource = sourceText !== undefined || fields !== undefined
  if (hasFile === hasSource) complain('file', hasFile ? 'cannot be given together with source' : 'either file or source is required')
  const entrypoint = texts.get('entrypoint_rel_path')
  const source = hasSource ? readSource(sent, settings.gitBase, problems) : undefined
  if (!hasSource) {
    const problem = entrypoint === undefined ? 'is required with file' : entrypointProblem(entrypoint)
    if (problem !== undefined) complain('entrypoint_rel_path', problem)
  } else if (source && entrypoint !== undefined && entrypoint !== source.entrypoint)
    complain('entrypoint_rel_path', 'belongs to file; source names its own entrypoint')
  if (problems.length > 0) throw fault.invalid(problems)
  return { archive, source, entrypoint: source?.entrypoint ?? entrypoint!, version, force: force === 'true', variables: variables.values }
}

/** A variable's name: `env_vars[A]` as the TypeScript and Python SDKs and the CLI write it, `env_vars.A` as Go's does. */
function variableOf(name: string): string | undefined {
  const found = /^env_vars(?:\[(.*)\]|\.(.*))$/s.exec(name)
  return found?.[1] ?? found?.[2]
}

/**
 * A field of `source`: `source[auth][token]` as the Python SDK writes it, `source.auth.token` as Go's does. Other clients send the whole object
 * as JSON.
 */
function sourceFieldOf(name: string): string[] | undefined {
  const found = /^source(?:\[(\w+)\](?:\[(\w+)\])?|\.(\w+)(?:\.(\w+))?)$/.exec(name)
  return found?.slice(1).filter((part) => part !== undefined)
}

interface Fields {
  [name: string]: string | Fields
}
/** Without a prototype, because callers choose the field names. */
const emptyFields = (): Fields => Object.create(null) as Fields

/** Puts a value at its path; false when a value is there already. */
function put(fields: Fields, path: readonly string[], value: string): boolean {
  const [name = '', ...rest] = path
  if (rest.length === 0) {
    if (fields[name] !== undefined) return false
    fields[name] = value
    return true
  }
  const inner = (fields[name] ??= emptyFields())
  return typeof inner === 'object' && put(inner, rest, value)
}

function readSource(value: unknown, gitBase: string, problems: FieldProblem[]): GitSource | undefined {
  if (value === undefined) return void problems.push({ field: 'source', problem: 'must be a JSON object' })
  const schema = gitSource(gitBase)
  const { data, problems: found } = checked(schema, withoutNulls(schema, value), 'source')
  problems.push(...found)
  return data
}

const shorten = (text: string): string => (text.length > 100 ? `${text.slice(0, 100)}…` : text)
