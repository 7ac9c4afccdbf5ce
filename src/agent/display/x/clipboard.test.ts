// Reading the clipboard, over a pretended X server: which answer belongs to which question. With a real one: test/e2e/clipboard.test.ts.
import { EventEmitter } from 'node:events'
import { expect, test } from 'vitest'
import { openClipboard } from './clipboard.ts'
import type { XConnection } from './x11.ts'

const [WINDOW, OWNER] = [7, 9]

function display() {
  const atoms = new Map<string, number>()
  const atom = async (name: string) => atoms.get(name) ?? atoms.set(name, atoms.size + 1).size
  const texts = new Map<number, string>()
  const asked: { target: number; property: number }[] = []
  const x = Object.assign(new EventEmitter(), {
    AllocID: () => WINDOW,
    CreateWindow() {},
    DeleteProperty() {},
    GetSelectionOwner: (_selection: number, done: (error: null, owner: number) => void) => done(null, OWNER),
    ConvertSelection: (_window: number, _selection: number, target: number, property: number) => void asked.push({ target, property }),
    GetProperty(_delete: number, _window: number, property: number, ...more: unknown[]) {
      const done = more.at(-1) as (error: null, value: object) => void
      done(null, { type: 0, data: Buffer.from(texts.get(property) ?? '') })
    },
  })
  const ask = <T>(send: (done: (error: null, value: T) => void) => void) => new Promise<T>((resolve) => send((_, value) => resolve(value)))
  const connection = { x, root: 1, ask, atom, fixes: { SelectSelectionInput() {} } } as unknown as XConnection
  /** The owner answers a question, with a text or without. */
  const answer = ({ target, property }: { target: number; property: number }, text?: string) => {
    if (text !== undefined) texts.set(property, text)
    x.emit('event', { name: 'SelectionNotify', requestor: WINDOW, target, property: text === undefined ? 0 : property })
  }
  return { connection, asked, answer }
}

const turn = () => new Promise((resolve) => setImmediate(resolve))

test('an answer to a question that nobody waits for any more is not taken for the answer to the next', async () => {
  const { connection, asked, answer } = display()
  const { read } = await openClipboard(connection)
  const gone = new AbortController()
  const first = read(gone.signal)
  await turn()
  gone.abort(new Error('gone'))
  await expect(first).rejects.toThrow('gone')
  const second = read(AbortSignal.timeout(10_000))
  await turn()
  answer(asked[0]!, 'late')
  await turn()
  answer(asked[1]!, 'in time')
  expect(await second).toBe('in time')
})

test('an owner without a text of one type is asked for another', async () => {
  const { connection, asked, answer } = display()
  const { read } = await openClipboard(connection)
  const text = read(AbortSignal.timeout(10_000))
  await turn()
  answer(asked[0]!)
  await turn()
  answer(asked[1]!, 'plain')
  expect(await text).toBe('plain')
})
