// The document inside of a KeePass file: groups and entries, without their history, and without what is in the recycle bin.
import sax from 'sax'
import { setImmediate } from 'node:timers/promises'
import { assertFew, BackendProblem } from './backend.ts'
import type { KdbxContent } from './kdbx.ts'

export interface Group {
  id: string
  name: string
}
export interface Entry {
  id: string
  /** From the root on, which is the first. */
  groups: Group[]
  /** `Title`, `UserName`, `Password`, `URL`, `Notes`, and those that people add. */
  fields: Map<string, string>
}

/** Parsed at once: some milliseconds. */
const PIECE = 64 * 1024
const MAX_DEPTH = 128

const damaged = () => new BackendProblem('the document in the KeePass file is damaged')

/** Everything that is not in the recycle bin. @throws BackendProblem; the signal's reason */
export async function readEntries({ xml, unprotect }: KdbxContent, signal: AbortSignal): Promise<Entry[]> {
  const reader = new Reader(unprotect)
  const text = xml.toString('utf8')
  for (let at = 0; at < text.length; at += PIECE) {
    reader.write(text.slice(at, at + PIECE))
    await setImmediate()
    signal.throwIfAborted()
  }
  return reader.end()
}

interface Element {
  name: string
  text: string
  isProtected: boolean
}

class Reader {
  readonly #parser = sax.parser(true, {})
  readonly #path: Element[] = []
  readonly #groups: Group[] = []
  readonly #entries: Entry[] = []
  /** The entry that is being read, and those around it: a history is inside of its entry. */
  readonly #open: Entry[] = []
  #key = ''
  #value = ''
  #bin: string | undefined
  #problem: BackendProblem | undefined

  constructor(unprotect: (bytes: Buffer) => Buffer) {
    const parser = this.#parser
    parser.onerror = () => {
      this.#problem ??= damaged()
    }
    parser.onopentag = ({ name, attributes }) => {
      if (this.#path.length >= MAX_DEPTH) this.#problem ??= damaged()
      this.#path.push({ name, text: '', isProtected: attributes.Protected === 'True' })
      if (name === 'Group') this.#groups.push({ id: '', name: '' })
      if (name === 'Entry') this.#open.push({ id: '', groups: [...this.#groups], fields: new Map() })
    }
    const add = (text: string) => {
      const element = this.#path.at(-1)
      if (element) element.text += text
    }
    parser.ontext = add
    parser.oncdata = add
    parser.onclosetag = () => {
      const element = this.#path.pop()!
      // Also of a history: each protected value takes its part of one stream.
      if (element.isProtected) element.text = unprotect(Buffer.from(element.text, 'base64')).toString('utf8')
      this.#closed(element, this.#path.at(-1)?.name)
    }
  }

  write(text: string): void {
    this.#parser.write(text)
    if (this.#problem) throw this.#problem
  }

  end(): Entry[] {
    this.#parser.close()
    if (this.#problem) throw this.#problem
    const bin = this.#bin
    return this.#entries.filter(({ groups }) => bin === undefined || !groups.some(({ id }) => id === bin))
  }

  #closed({ name, text }: Element, parent: string | undefined): void {
    const entry = this.#open.at(-1)
    const group = this.#groups.at(-1)
    if (name === 'RecycleBinUUID' && parent === 'Meta') this.#bin = text.trim()
    else if (name === 'Group') this.#groups.pop()
    else if (name === 'Entry') {
      this.#open.pop()
      // One of a history is inside of another one.
      if (entry && this.#open.length === 0) this.#entries.push(entry)
      assertFew(this.#entries.length)
    } else if (name === 'Key' && parent === 'String') this.#key = text
    else if (name === 'Value' && parent === 'String') this.#value = text
    else if (name === 'String' && parent === 'Entry') {
      entry?.fields.set(this.#key, this.#value)
      this.#key = this.#value = ''
    } else if (name === 'UUID' && parent === 'Entry' && entry) entry.id = text.trim()
    else if (name === 'UUID' && parent === 'Group' && group) group.id = text.trim()
    else if (name === 'Name' && parent === 'Group' && group) group.name = text
  }
}
