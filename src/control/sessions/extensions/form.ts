// The form of an upload, read as it arrives: the archive goes to the object store, the name is checked.
import { MAX_EXTENSION_BYTES, StoredName } from '../../../agent/extensions/contract.ts'
import { checked, fault, type FieldProblem } from '../../../http/fault.ts'
import type { FormPart } from '../../../http/route.ts'
import type { Objects, Stored } from '../../../store/objects.ts'
import { storeUpload } from '../../service/uploads.ts'

/** Reads a whole form, its parts in any order. @throws 400 that names every wrong field, 413. The archive may be stored by then */
export async function readExtensionForm(
  parts: AsyncIterable<FormPart>,
  objects: Objects,
  key: string,
  signal: AbortSignal,
): Promise<{ archive: Stored; name: string | undefined }> {
  const problems: FieldProblem[] = []
  const complain = (field: string, problem: string) => void problems.push({ field, problem })
  let archive: Stored | undefined
  let hasFile = false
  let name: string | undefined
  for await (const part of parts) {
    if (part.name === 'file') {
      if (hasFile) complain('file', 'is given twice')
      else if (!('content' in part)) complain('file', 'must be a file: a part with a filename')
      hasFile = true
      // After an error in the form, no more of it is stored.
      if ('content' in part && problems.length > 0) part.content.resume()
      else if ('content' in part) archive = await storeUpload(objects, key, part.content, MAX_EXTENSION_BYTES, signal)
    } else if ('content' in part) {
      complain(shorten(part.name), part.name === 'name' ? 'must be text, not a file' : 'there is no such part; they are file and name')
      part.content.resume()
    } else if (part.name !== 'name') complain(shorten(part.name), 'there is no such part; they are file and name')
    else if (name !== undefined) complain('name', 'is given twice')
    // A form has no null: clients send an empty text for a field that they do not set.
    else if (part.value !== '') {
      name = part.value
      problems.push(...checked(StoredName, name, 'name').problems)
    }
  }
  if (!hasFile) complain('file', 'is required')
  if (archive?.bytes === 0) complain('file', 'is empty')
  if (problems.length > 0) throw fault.invalid(problems)
  return { archive: archive!, name }
}

const shorten = (text: string): string => (text.length > 100 ? `${text.slice(0, 100)}…` : text)
