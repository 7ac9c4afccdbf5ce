// The guard, in its own process because it handles the exceptions of a whole process.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { PACKAGE_DIR } from '../base/paths.ts'

/** Runs a program under the guard; exit code 7 means that the guard ended it. */
async function under(program: string): Promise<{ code: number; said: string }> {
  const source = `
    const { guard } = await import(${JSON.stringify(`${PACKAGE_DIR}/src/agent/guard.ts`)})
    const log = { error: ({ err }, message) => console.log(message + ': ' + err.message) }
    guard(log, (why) => { console.log('ends: ' + why); process.exit(7) })
    ${program}`
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', '--input-type=module', '--eval', source], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [said, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')])
  return { code: code as number, said }
}

test('an uncaught exception or rejection is logged, and the agent continues', async () => {
  const { code, said } = await under(`
    setTimeout(() => { throw new Error('one') }, 1)
    setTimeout(() => void Promise.reject(new Error('two')), 2)
    setTimeout(() => { throw 'three' }, 3)
    setTimeout(() => console.log('alive'), 20)`)
  expect(said).toBe('an exception that nothing caught: one\na promise failed that nothing waits for: two\nan exception that nothing caught: three\nalive\n')
  expect(code).toBe(0)
})

test('repeated uncaught exceptions end the agent', async () => {
  const { code, said } = await under(`setInterval(() => { throw new Error('again') }, 1)`)
  expect(code).toBe(7)
  expect(said).toContain('ends: more than 50 exceptions within 60 s')
})

test('an uncaught exception in the reader of the X connection ends the agent, because it would misread the next message', async () => {
  const { code } = await under(`
    const { runInThisContext } = await import('node:vm')
    const read = runInThisContext('(listener) => listener()', { filename: '/opt/cob/node_modules/x11/lib/xcore.js' })
    setTimeout(() => read(() => { throw new Error('in a listener') }), 1)
    setTimeout(() => {}, 500)`)
  expect(code).toBe(7)
})
