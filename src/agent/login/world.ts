// A world of the agent's own in one document, with the scripts of in-page/: it has the document and none of the page's JavaScript.
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CdpGone, CdpRefusal, type CdpSession } from '../chromium/cdp.ts'

/** What the scripts of a page cannot guess. */
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

/** The document that is meant is there no more: it was navigated, its frame removed, or its tab closed. */
export class DocumentGone extends Error {}

/** The world of one document. */
export interface World {
  readonly session: CdpSession
  readonly frameId: string
  /** The number of its execution context, which another document may have later: nothing secret is sent to it. */
  readonly contextId: number
  /** Calls a function of the scripts. `given` are plain values. @throws DocumentGone; WaitTimeout when the page is busy */
  call(name: string, given: readonly unknown[], limitMs?: number): Promise<unknown>
  /** The same, with an element of this document as its only argument. */
  callWith(name: string, objectId: string, more?: readonly string[]): Promise<unknown>
  /** The elements of a list that a function returns, as objects. */
  objects(name: string): Promise<string[]>
}

/** Opens the world of the document that a frame has now. @throws as {@link World.call} */
export async function openWorld(session: CdpSession, frameId: string): Promise<World> {
  const options = { limitMs: ANSWER_MS }
  const create = async () => (await session.send('Page.createIsolatedWorld', { frameId, worldName: WORLD }, options)).executionContextId
  const contextId = await telling(create)
  const { result } = await telling(() => session.send('Runtime.evaluate', { expression: SOURCE, contextId, timeout: ANSWER_MS }, options))
  // The frame may have moved to another process meanwhile, where the world of a page has this number. There, another one is made now.
  if ((await telling(create)) !== contextId || result.objectId === undefined) throw new DocumentGone('the document changed while it was looked into')
  // Unlike the number of a context, this names one context of one process, and no other ever.
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
  const calling = (name: string) => `function (...given) { return this.${name}(...given) }`
  return {
    session,
    frameId,
    contextId,
    call: async (name, given, limitMs) =>
      (
        await run(
          calling(name),
          given.map((value) => ({ value })),
          true,
          limitMs,
        )
      ).value as unknown,
    callWith: async (name, object, more = []) =>
      (
        await run(
          calling(name),
          [object, ...more].map((one) => ({ objectId: one })),
          true,
        )
      ).value as unknown,
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

/** Chromium refuses what is sent to a document that is gone. */
async function telling<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof CdpGone || error instanceof CdpRefusal) throw new DocumentGone(error.message, { cause: error })
    throw error
  }
}
