// The agent's own world in one document, with the scripts of in-page/: it has the document and none of the page's JavaScript.
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CdpGone, CdpRefusal, type CdpSession } from '../chromium/cdp.ts'

/** A name that the scripts of a page cannot guess. */
const NAME = `cob${randomBytes(12).toString('hex')}`
const EVENT = `cob${randomBytes(12).toString('hex')}`
export const WORLD = 'cob-login'
/** A document that is not busy answers within some milliseconds; a large one needs a second to be read. */
const ANSWER_MS = 3_000

/** The text of a script beside this file, with its names. */
export const script = (name: string): string =>
  readFileSync(join(import.meta.dirname, 'in-page', `${name}.js`), 'utf8')
    .replaceAll('LOGIN', NAME)
    .replaceAll('EVENT', EVENT)
const SOURCE = `${['base', 'reader', 'actor'].map(script).join('\n')}\n;globalThis.${NAME}`

/** The document does not exist any more: it was navigated, its frame removed, or its tab closed. */
export class DocumentGone extends Error {}

/** The world of one document. */
export interface World {
  readonly session: CdpSession
  /** The number of its execution context, which another document may get later: never send it a secret. */
  readonly contextId: number
  /** Calls a function of the scripts. `given` are plain values. @throws DocumentGone; WaitTimeout when the page is busy */
  call(name: string, given: readonly unknown[], limitMs?: number): Promise<unknown>
  /** The same, with an element of this document as its only argument. */
  callWith(name: string, objectId: string, more?: readonly string[]): Promise<unknown>
  /** The elements of a list that a function returns, as objects. */
  objects(name: string): Promise<string[]>
}

/** Opens the world of a frame's present document. @throws as {@link World.call} */
export async function openWorld(session: CdpSession, frameId: string): Promise<World> {
  const options = { limitMs: ANSWER_MS }
  const create = async () => (await session.send('Page.createIsolatedWorld', { frameId, worldName: WORLD }, options)).executionContextId
  const contextId = await telling(create)
  const { result } = await telling(() => session.send('Runtime.evaluate', { expression: SOURCE, contextId, timeout: ANSWER_MS }, options))
  // The frame may have moved to another process meanwhile, where this number belongs to the world of a page. Creating the world again there gives another
  // number.
  if ((await telling(create)) !== contextId || result.objectId === undefined) throw new DocumentGone('the document changed while it was looked into')
  // Unlike the number of a context, this id is unique: it names one context of one process.
  const { objectId } = result

  async function run(functionDeclaration: string, args: object[], byValue: boolean, limitMs = ANSWER_MS) {
    const { result: value, exceptionDetails } = await telling(() =>
      session.send('Runtime.callFunctionOn', { objectId, functionDeclaration, arguments: args, returnByValue: byValue, objectGroup: NAME }, { limitMs }),
    )
    if (exceptionDetails)
      throw new DocumentGone(
        `a document could not be asked: ${String(exceptionDetails.text).slice(0, 100)} ${String(exceptionDetails.exception?.description ?? '').slice(0, 300)}`,
      )
    return value
  }
  const ask = async (name: string, args: object[], limitMs?: number): Promise<unknown> =>
    (await run(`function (...given) { return this.${name}(...given) }`, args, true, limitMs)).value
  return {
    session,
    contextId,
    call(name, given, limitMs) {
      const values = given.map((value) => ({ value }))
      return ask(name, values, limitMs)
    },
    callWith(name, object, more = []) {
      const objects = [object, ...more].map((one) => ({ objectId: one }))
      return ask(name, objects)
    },
    async objects(name) {
      const { value } = await run(`function () { this.asked = this.${name}(); return this.asked.length }`, [], true)
      const found: string[] = []
      for (let index = 0; index < Math.min(Number(value) || 0, 20); index++) {
        const one = await run(`function (index) { return this.asked[index] }`, [{ value: index }], false)
        if (one.objectId !== undefined) found.push(one.objectId)
      }
      return found
    },
  }
}

/** Chromium refuses commands to a document that does not exist any more. */
async function telling<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof CdpGone || error instanceof CdpRefusal) throw new DocumentGone(error.message, { cause: error })
    throw error
  }
}
