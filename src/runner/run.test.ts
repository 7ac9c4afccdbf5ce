// Runs: for any action there is exactly one result, all of its output comes before it, and no process remains.
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { STRANGERS } from '../base/anonymous.ts'
import { until } from '../base/wait.ts'
import { ended, openLab, processesOf, type Lab } from './runner.suite.ts'

const APP = `
import { Kernel } from '@onkernel/sdk'
import { spawn } from 'node:child_process'
const app = new Kernel().app('app')
const loop = { get self() { return loop } }
const actions = {
  echo: (ctx, payload) => { console.log('echo'); return { ctx, payload } },
  env: () => [process.env.SECRET, process.env['odd.name'], process.env.KERNEL_API_KEY, Object.keys(process.env).filter((name) => name.startsWith('COB_'))],
  nothing: () => undefined,
  throws: () => { throw new TypeError('broken') },
  text: () => { throw 'a text' },
  bigint: () => ({ a: 1n }),
  cycle: () => loop,
  function: () => () => 1,
  huge: () => 'x'.repeat(4718592),
  exit: () => { process.stdout.write('half'); process.exit(3) },
  killed: () => { process.kill(process.pid, 'SIGKILL') },
  heap: () => { const all = []; for (;;) all.push(new Array(1e5).fill(Math.random())) },
  rejects: () => { void Promise.reject(new Error('unhandled')); return new Promise((resolve) => setTimeout(resolve, 5000)) },
  stuck: () => new Promise(() => {}),
  line: () => { process.stdout.write('x'.repeat(1024 * 1024)); process.stderr.write('\\nafter'); return 1 },
  many: (ctx, n) => { for (let i = 0; i < n; i++) console[i % 2 ? 'error' : 'log']('line ' + i); return n },
  leftover: () => { spawn('sleep', ['600'], { stdio: 'inherit', detached: true, env: { LAB: process.env.LAB, PATH: process.env.PATH } }).unref(); return 'left' },
  parting: () => { process.on('exit', () => console.log('last words')); return 1 },
  mute: () => { const { closeSync } = require('node:fs'); process.on('exit', () => { closeSync(1); closeSync(2) }); return 1 },
  liar: () => { require('node:fs').writeSync(3, 'nonsense\\n{"type":"result","ok":true,"output":"{"}\\n') },
}
import { createRequire } from 'node:module'
const require = createRequire(import.meta.url)
for (const [name, action] of Object.entries(actions)) app.action(name, async (ctx, payload) => action(ctx, payload))
if (process.env.ON_IMPORT) eval(process.env.ON_IMPORT)
console.log('imported')
`

let lab: Lab
let app: string
beforeAll(() => {
  lab = openLab()
  app = join(lab.dir, 'app')
  mkdirSync(join(app, 'code'), { recursive: true })
  writeFileSync(join(app, 'code/app.mjs'), APP)
  const registries = [{ path: join(lab.dir, 'node_modules/@onkernel/sdk/index.mjs'), cjs: false }]
  writeFileSync(join(app, 'manifest.json'), JSON.stringify({ language: 'node', entrypoint: 'app.mjs', folder: '', registries }))
})
afterAll(() => lab[Symbol.asyncDispose]())

const failed = (reason: string) => ({ type: 'result', ok: false, reason, output: JSON.stringify({ error: reason }) })

describe('a run', () => {
  test('returns the result of the action, after its output and the output of the import', async () => {
    const { logs, last } = await lab.run(app, 'echo', { a: [1, 'é'] })
    expect(logs).toEqual(['imported', 'echo'])
    expect(last).toMatchObject({ type: 'result', ok: true, reason: null })
    expect(JSON.parse((last as { output: string }).output)).toEqual({ ctx: { invocation_id: 'inv_1' }, payload: { a: [1, 'é'] } })
  })

  test("has the variables of the app, with any content, and none of the runner's", async () => {
    const secret = `a'b"c\n$(d) \`e\` \\ é`
    const { last } = await lab.run(app, 'env', null, { env: { SECRET: secret, 'odd.name': 'odd' } })
    const [one, two, key, ours] = JSON.parse((last as { output: string }).output) as unknown[]
    expect([one, two, key]).toEqual([secret, 'odd', 'sk_test'])
    expect(ours).toEqual(['COB_RUNNER_PATHS']) // added by this test
  })

  test('that returns nothing has the output null', async () => {
    expect((await lab.run(app, 'nothing')).last).toMatchObject({ ok: true, output: null })
  })

  test('that throws fails with its message; the stack is in the log', async () => {
    const { logs, last } = await lab.run(app, 'throws')
    expect(last).toMatchObject(failed('broken'))
    expect(logs.join('\n')).toMatch(/TypeError: broken\n +at .*app\.mjs:\d+/)
    expect((await lab.run(app, 'text')).last).toMatchObject(failed('a text'))
  })

  test.each([
    ['bigint', /cannot be written as JSON: .*BigInt/],
    ['cycle', /cannot be written as JSON: .*circular/],
    ['function', /cannot be written as JSON: it is a function/],
    ['huge', /returned 4718594 bytes of JSON; 4718592 are allowed/],
  ])('whose result is not JSON of an allowed size fails with that reason: %s', async (action, reason) => {
    const { last } = await lab.run(app, action)
    expect(last).toMatchObject({ ok: false, reason: expect.stringMatching(reason) })
  })

  test('that exits its process fails, and none of its output is lost', async () => {
    const { logs, last } = await lab.run(app, 'exit')
    expect(last).toMatchObject(failed('the action ended its process with exit code 3 before it returned'))
    expect(logs).toEqual(['imported', 'half'])
  })

  test('that is killed, or runs out of memory, fails with a hint about memory', async () => {
    expect((await lab.run(app, 'killed')).last).toMatchObject(failed('the action was killed; most likely it used more memory than its limit of 512 MiB'))
    const { last } = await lab.run(app, 'heap', null, { env: { NODE_OPTIONS: '--max-old-space-size=40' } })
    expect(last).toMatchObject({ ok: false, reason: expect.stringContaining('ran out of memory') })
  })

  test('with an unhandled rejection fails with it', async () => {
    expect((await lab.run(app, 'rejects')).last).toMatchObject(failed('unhandled'))
  })

  test('that waits for something that can never happen ends', async () => {
    expect((await lab.run(app, 'stuck')).last).toMatchObject({ ok: false, reason: expect.stringContaining('can never happen') })
  })

  test('can print a line of a megabyte, of which 64 KiB are kept', async () => {
    const { logs, last } = await lab.run(app, 'line')
    expect(logs.map((line) => line.length)).toEqual([8, 65536, 5])
    expect(last).toMatchObject({ ok: true, output: '1' })
  })

  test('can print faster than it is read: nothing is lost, and both outputs stay in order', async () => {
    const { logs, last } = await lab.run(app, 'many', 60_000)
    expect(logs.slice(1)).toEqual(Array.from({ length: 60_000 }, (_, at) => `line ${at}`))
    expect(last).toMatchObject({ ok: true, output: '60000' })
  })

  test('includes what its exit handlers print', async () => {
    const { logs, last } = await lab.run(app, 'parting')
    expect([logs, last]).toEqual([['imported', 'last words'], expect.objectContaining({ ok: true, output: '1' })])
  })

  test('may close its outputs itself', async () => {
    expect((await lab.run(app, 'mute')).last).toMatchObject({ ok: true, output: '1' })
  })

  test('leaves no process behind that holds its output open', async () => {
    const { last } = await lab.run(app, 'leftover', null, { env: { LAB: `${lab.dir}/leftover` } })
    expect(last).toMatchObject({ ok: true, output: '"left"' })
    expect(processesOf(`${lab.dir}/leftover`)).toEqual([])
  })

  test('cannot forge its own reports', async () => {
    expect((await lab.run(app, 'liar')).last).toMatchObject(failed('what the action returned is not JSON'))
  })

  test('of an unknown action fails', async () => {
    expect((await lab.run(app, 'other')).last).toMatchObject({ ok: false, reason: expect.stringContaining('has no action "other"') })
  })
})

describe('an app that cannot be loaded', () => {
  test.each([
    ['throw new Error("on import")', /could not be loaded: on import/],
    ['process.exit(7)', /ended its process with exit code 7 before it was loaded/],
  ])('ends the runner with the reason: %s', async (code, reason) => {
    await using runner = await lab.start({ kind: 'run', env: { ON_IMPORT: code } }, app)
    const last = (await runner.events()).at(-1)
    expect(last).toMatchObject({ type: 'failed', reason: expect.stringMatching(reason) })
    expect(await runner.ready()).toEqual({ ok: false, reason: (last as { reason: string }).reason })
  })
})

describe('a runner', () => {
  test('runs one run only', async () => {
    await using runner = await lab.start({ kind: 'run' }, app)
    const run = { invocation: 'inv_1', app: 'app', action: 'nothing', payload: null }
    expect(await runner.ready()).toEqual({ ok: true })
    await runner.run(run)
    await expect(runner.run(run)).rejects.toThrow('409')
    await runner.events()
  })

  test('sends unacknowledged events again, and pauses an app that prints more than it may keep', async () => {
    await using runner = await lab.start({ kind: 'run' }, app)
    await runner.run({ invocation: 'inv_1', app: 'app', action: 'many', payload: '120000' })
    const first = await runner.events({ acknowledge: false, until: 40_000 })
    const all = await runner.events()
    expect(all.slice(0, first.length)).toEqual(first)
    expect(all.map(({ seq }) => seq)).toEqual(Array.from({ length: 120_002 }, (_, at) => at + 1))
  })
})

describe('a run in Python', () => {
  test('supports virtual environments, sync and async actions, the context, errors and exits', async () => {
    const python = join(lab.dir, 'python')
    mkdirSync(join(python, 'venv/bin'), { recursive: true })
    symlinkSync(join(import.meta.dirname, '../../test/data/apps/python'), join(python, 'code'))
    writeFileSync(join(python, 'manifest.json'), '{"language":"python","entrypoint":"main.py","folder":""}')
    // Stands for a virtual environment; the app's packages are in its own folder.
    writeFileSync(join(python, 'venv/bin/python'), '#!/bin/sh\nexec python3 "$@"\n', { mode: 0o755 })
    const run = (action: string, payload?: unknown) => lab.run(python, action, payload, { app: 'py' })
    const [sync, async_, only, boom, exit, set, nan] = await Promise.all([
      run('sync', { n: 1 }),
      run('async'),
      run('ctx-only', 'ignored'),
      run('boom'),
      run('exit'),
      run('set'),
      run('nan'),
    ])
    expect(sync).toMatchObject({
      logs: ['imported', 'out', 'err', 'out again'],
      last: { ok: true, output: '{"payload":{"n":1},"invocation":"inv_1","é":"ü"}' },
    })
    expect(async_.last).toMatchObject({ ok: true, output: '[null]' })
    expect(only.last).toMatchObject({ ok: true, output: null })
    expect(boom.last).toMatchObject(failed('py boom'))
    expect(boom.logs.join('\n')).toMatch(/^imported\nTraceback \(most recent call last\):\n +File ".*main\.py", line \d+, in boom\n/)
    expect(exit.last).toMatchObject(failed('the action ended its process with exit code 4 before it returned'))
    expect(set.last).toMatchObject(failed('what the action returned cannot be written as JSON: it has a set in it'))
    expect(nan.last).toMatchObject({ ok: false, reason: expect.stringContaining('cannot be written as JSON') })
  })
})

test('the code of an app starts after its runner has taken its keys; without keys it does not wait', async () => {
  const keys = Promise.withResolvers<void>()
  const imported = (name: string) => join(lab.dir, name)
  const noting = (name: string) => ({ ON_IMPORT: `process.getBuiltinModule('node:fs').writeFileSync(${JSON.stringify(imported(name))}, '')` })
  await using waiting = await lab.start({ kind: 'run', env: noting('with-keys') }, app, keys.promise)
  // This later run is the clock: within its time the other one would have imported its app.
  await using other = await lab.start({ kind: 'run', env: noting('without-keys') }, app)
  expect(await other.ready()).toEqual({ ok: true })
  expect([existsSync(imported('without-keys')), existsSync(imported('with-keys'))]).toEqual([true, false])
  keys.resolve()
  await waiting.run({ invocation: 'inv_1', app: 'app', action: 'echo', payload: '"after"' })
  const { last } = ended(await waiting.events())
  expect(JSON.parse((last as { output: string }).output)).toMatchObject({ payload: 'after' })
  expect(existsSync(imported('with-keys'))).toBe(true)
})

test('connections of strangers to a runner are limited, and its run is served meanwhile', async () => {
  await using runner = await lab.start({ kind: 'run' }, app, Promise.resolve())
  await runner.ready()
  const { host, port } = runner.endpoint as { host: string; port: number }
  const strangers = Array.from({ length: STRANGERS.perAddress + 50 }, () =>
    connect(port, host)
      .on('error', () => {})
      .resume(),
  )
  try {
    // Without a limit, anonymous connections are closed only after ten seconds, the limit on a handshake.
    await until('the oldest to be closed', 5_000, () => strangers.filter((stranger) => !stranger.closed).length <= STRANGERS.perAddress)
    await runner.run({ invocation: 'inv_1', app: 'app', action: 'nothing', payload: null })
    expect(ended(await runner.events()).last).toMatchObject({ type: 'result', ok: true })
  } finally {
    for (const stranger of strangers) stranger.destroy()
  }
})

test('a runner that no service watches ends after its grace period', async () => {
  await using runner = await lab.start({ kind: 'run', graceSeconds: 1 }, app)
  await until(
    'its end',
    20_000,
    () =>
      runner.ready().then(
        () => false,
        () => true,
      ),
    { everyMs: 100 },
  )
})
