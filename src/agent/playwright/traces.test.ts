// Side effects of a run in its process are detected.
import { connect, createServer } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { until } from '../../base/wait.ts'
import { resources, watchTraces } from './traces.ts'

const undo: (() => unknown)[] = []
afterEach(() => undo.splice(0).forEach((take) => take()))

describe('the side effects of a run', () => {
  test('are none if the code only did its work', () => {
    const traces = watchTraces()
    new TextDecoder().decode(Buffer.from(String(structuredClone([1]))))
    const left = traces(resources())
    expect(left).toBe('none')
  })

  const put = (object: object, key: string, value: unknown) => {
    const before = Reflect.get(object, key) as unknown
    Reflect.set(object, key, value)
    return () => (before === undefined ? Reflect.deleteProperty(object, key) : Reflect.set(object, key, before))
  }
  test.each<[string, () => () => unknown]>([
    ['a global', () => put(globalThis, 'leak', 1)],
    ['another console', () => put(console, 'log', () => {})],
    ['a property of all objects', () => put(Object.prototype, 'leak', 1)],
    ['a variable of the environment', () => put(process.env, 'LEAK', '1')],
    [
      'a listener of the process',
      () => {
        const listener = () => {}
        process.on('SIGUSR2', listener)
        return () => process.off('SIGUSR2', listener)
      },
    ],
  ])('that are permanent are detected: %s', (_name, leave) => {
    const traces = watchTraces()
    undo.push(leave())
    const left = traces(resources())
    expect(left).toBe('lasting')
  })

  test('that may end soon are reported until they end: a server', async () => {
    const usual = resources()
    const traces = watchTraces()
    const server = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    const client = connect((server.address() as { port: number }).port, '127.0.0.1')
    const left = traces(usual)
    client.destroy()
    await new Promise((resolve) => server.close(resolve))
    await until('the sockets to close', 10_000, () => traces(usual) === 'none')
    expect(left).toBe('passing')
  })
})
