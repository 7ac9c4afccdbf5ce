// The form of extensions for a running browser, read as it arrives.
import type { Readable } from 'node:stream'
import { checked, fault } from '../../http/fault.ts'
import type { FormPart } from '../../http/route.ts'
import { ExtensionName, MAX_EXTENSIONS } from './contract.ts'

/**
 * Field names: `extensions[0][name]` from the TypeScript SDK, `extensions.0.name` from Go; `extensions[][name]` from Python and `extensions.name`, where
 * the order counts.
 */
const PART = /^extensions(?:\[(\d{0,4})\]|\.(\d{1,4}))?(?:\[(name|zip_file)\]|\.(name|zip_file))$/

type Field = 'name' | 'zip_file'

interface GivenExtension {
  name: string
  /** The path of its archive. */
  archive: string
  /** Its name in the form, as in `extensions[0]`. */
  field: string
}

/** Reads a whole form; `receive` stores an archive and returns its path. @throws 400 that names the part */
export async function readExtensionParts(parts: AsyncIterable<FormPart>, receive: (content: Readable) => Promise<string>): Promise<GivenExtension[]> {
  const given = new Map<string, Partial<GivenExtension>>()
  const unnumbered = { name: 0, zip_file: 0 }
  for await (const part of parts) {
    const [index, field] = fieldOf(part.name, unnumbered)
    const called = `extensions[${index}][${field}]`
    const one = given.get(index) ?? {}
    given.set(index, one)
    if (given.size > MAX_EXTENSIONS) throw fault.field('extensions', `at most ${MAX_EXTENSIONS} at once`)
    if (one[field === 'name' ? 'name' : 'archive'] !== undefined) throw fault.field(called, 'is given twice')
    if (field === 'name') one.name = nameOf(part, called)
    else if (!('content' in part)) throw fault.field(called, 'must be a file')
    else one.archive = await receive(part.content)
  }
  if (given.size === 0) throw fault.field('extensions', 'at least one extension is required')
  const names = new Set<string>()
  return [...given].map(([index, { name, archive }]) => {
    const field = `extensions[${index}]`
    if (name === undefined) throw fault.field(`${field}[name]`, 'is required')
    if (archive === undefined) throw fault.field(`${field}[zip_file]`, 'is required')
    if (names.has(name)) throw fault.field(`${field}[name]`, 'is also the name of another extension of this form')
    names.add(name)
    return { name, archive, field }
  })
}

function fieldOf(name: string, unnumbered: Record<Field, number>): [index: string, field: Field] {
  const found = PART.exec(name)
  if (!found) throw fault.field(name.slice(0, 100), 'there is no such part; they are extensions[0][name], extensions[0][zip_file] and so on')
  const field = (found[3] ?? found[4]) as Field
  const index = found[1] ?? found[2] ?? ''
  return [index === '' ? String(unnumbered[field]++) : String(Number(index)), field]
}

function nameOf(part: FormPart, called: string): string {
  if (!('value' in part)) throw fault.field(called, 'must be text')
  const { problems } = checked(ExtensionName, part.value, called)
  if (problems.length > 0) throw fault.invalid(problems)
  return part.value
}
