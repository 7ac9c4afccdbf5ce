// Runs Playwright code in a session through the published SDK.
import type Kernel from '@onkernel/sdk'
import { existsSync } from 'node:fs'
import { chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../src/base/wait.ts'
import { conforms } from '../support/contract.ts'
import { forTests } from '../support/for-tests.ts'
import { agentOf, processesOf, runInside } from '../support/inside.ts'
import { servePages } from '../support/pages.ts'
import { shareCloud } from '../support/shared-cloud.ts'

type Params = Parameters<Kernel['browsers']['playwright']['execute']>[1]

let id: string
let cdpUrl: string
const pages = forTests(() => servePages())
const cloud = forTests(() => shareCloud())
beforeAll(async () => {
  const made = await cloud.client.browsers.create({ timeout_seconds: 600 })
  id = made.session_id
  cdpUrl = made.cdp_ws_url
})
afterAll(async () => {
  await cloud.client.browsers.deleteByID(id)
})

async function execute(code: string, options: Partial<Params> = {}, request: { signal?: AbortSignal } = {}) {
  const done = await cloud.client.browsers.playwright.execute(id, { code, ...options }, request)
  conforms('PlaywrightExecuteResponse', done)
  return done
}
const result = async (code: string): Promise<unknown> => {
  const done = await execute(code)
  if (!done.success) throw new Error(`${done.error}\n${done.stderr}`)
  return done.result
}
const running = () => processesOf(cloud, id).find(({ command }) => command.includes('--remote-debugging-pipe') && !command.includes('--type='))?.pid
const workers = () => processesOf(cloud, id).filter(({ command }) => command.includes('playwright/worker.ts'))

/** Crashes the page, and waits until Chromium has reported it to its clients. A run that began earlier would see the crash during the run. */
async function crashed(crash: (page: Page) => unknown): Promise<void> {
  const browser = await chromium.connectOverCDP(cdpUrl)
  const page = browser.contexts()[0]!.pages()[0]!
  const crashed = page.waitForEvent('crash')
  await crash(page)
  await crashed
  await browser.close()
}
const crashByCdp = async (page: Page) => {
  const cdp = await page.context().newCDPSession(page)
  cdp.send('Page.crash').catch(() => {}) // this gets no answer
}

describe('Playwright code', () => {
  test('has no process before the first run, and one afterwards', async () => {
    expect(workers()).toHaveLength(0)
    expect(await result('return 1')).toBe(1)
    expect(workers()).toHaveLength(1)
  })

  test('has page, context and browser, can wait, and returns a value', async () => {
    await result(`await page.goto('${pages.url('first')}')`)
    expect(await result('return await page.title()')).toBe('first')
    expect(await result('return [browser.contexts().length, context.pages().length, context === page.context(), browser.isConnected()]')).toEqual([
      1,
      1,
      true,
      true,
    ])
  })

  test('can be TypeScript', async () => {
    const code = `enum Size { S = 1, L = 2 }
      interface Found { title: string; size: Size }
      const title = await page.evaluate<string>(() => document.title as string)
      return { title, size: Size.L } satisfies Found`
    expect(await result(code)).toEqual({ title: 'first', size: 2 })
  })

  test('that is invalid fails with the line', async () => {
    expect(await execute('const a = 1\nretrun a b')).toMatchObject({ success: false, error: expect.stringContaining('line 2') })
  })

  test('can print, in order, and the output is cut at 1 MiB', async () => {
    const done = await execute(`console.log('one', { two: 2 }); process.stdout.write('three\\n'); console.error('é'); return 1`)
    expect(done).toEqual({ success: true, result: 1, stdout: 'one { two: 2 }\nthree\n', stderr: 'é\n' })
    const long = await execute(`for (let i = 0; i < 300; i++) process.stdout.write('x'.repeat(10_000))`)
    expect(long.stdout).toMatch(/^x{1048576}\n\[1951424 more bytes were dropped\]\n$/)
  })

  test('that throws fails with its message, and its stack is on stderr', async () => {
    const done = await execute(`\nthrow new Error('not today')`)
    expect(done).toMatchObject({ success: false, error: 'not today', stderr: expect.stringMatching(/code\.ts:2:7/) })
    const missed = await execute(`await page.click('#nowhere', { timeout: 100 })`)
    expect(missed.error).toMatch(/Timeout 100ms exceeded[^]*#nowhere/)
    expect(missed.error).not.toMatch(/\p{Cc}\[/u)
  })

  test('that returns something JSON cannot hold fails with the reason', async () => {
    for (const [code, error] of [
      ['return page', 'Playwright Page'],
      ['return 1n', 'BigInt'],
      ['const a = {}; a.a = a; return { a }', 'the result.a.a'],
      ['return () => 1', 'function'],
      [`return 'x'.repeat(17_000_000)`, '16777216'],
    ] as const)
      expect(await execute(code)).toMatchObject({ success: false, error: expect.stringContaining(error) })
    expect(await execute('return undefined')).toEqual({ success: true, stdout: '', stderr: '' })
  })

  test('that is missing, empty or has an invalid timeout answers 400 that names the field', async () => {
    for (const [params, field] of [
      [{ code: '' }, 'code'],
      [{ code: ' \n' }, 'code'],
      [{}, 'code'],
      [{ code: 'x', timeout_sec: 0 }, 'timeout_sec'],
      [{ code: 'x', timeout_sec: 301 }, 'timeout_sec'],
    ] as [Params, string][])
      await expect(cloud.client.browsers.playwright.execute(id, params)).rejects.toMatchObject({ status: 400, message: expect.stringContaining(field) })
  })
})

describe('a Playwright run that goes wrong', () => {
  test('because it never ends is stopped, returns its output, and the next run works', async () => {
    expect(await execute(`console.log('begun'); for (;;) {}`, { timeout_sec: 1 })).toMatchObject({
      success: false,
      error: expect.stringContaining('1 s'),
      stdout: 'begun\n',
    })
    expect(await result('return 2')).toBe(2)
  })

  test.each([
    ['ends its process', 'process.exit(3)', 'exit code 3'],
    ['kills its process', `process.kill(process.pid, 'SIGKILL')`, 'SIGKILL'],
    ['throws where nobody waits', `setTimeout(() => { throw new Error('later') }, 5); await new Promise(() => {})`, 'later'],
    [
      'throws in a listener',
      `page.on('console', () => { throw new Error('heard') }); await page.evaluate(() => console.log(1)); await page.waitForTimeout(5_000)`,
      'heard',
    ],
    ['takes all memory', 'const all = []; for (;;) all.push(new Array(1e6).fill(0.5))', 'memory'],
    ['fills buffers', 'const all = []; for (;;) all.push(Buffer.alloc(1e8, 1))', 'allocate memory'],
    ['throws what has no text', `throw Object.assign(new Error('x'), { message: { odd: 1 }, stack: 5 })`, 'odd'],
    ['throws what cannot be looked at', `throw Object.assign(new Error('x'), { get message() { throw 1 } })`, ''],
    ['throws a book', `throw new Error('x'.repeat(30e6))`, '29934464 more characters were dropped'],
    ['cannot even say that it failed', `process.stderr.write = () => { throw new Error('mute') }; throw new Error('x')`, 'exit code 1'],
    ['talks to the agent in its own way', `(await import('node:fs')).writeSync(3, 'nonsense\\n'); await new Promise(() => {})`, 'SIGKILL'],
  ])('because it %s, fails, and the next run works', async (_name, code, error) => {
    expect(await execute(code, { timeout_sec: 20 })).toMatchObject({ success: false, error: expect.stringContaining(error) })
    expect(await result('return await page.title()')).toBe('first')
  })

  test('takes its child processes with it, also if it exits by itself', async () => {
    const start = `(await import('node:child_process')).spawn('sleep', ['4321'], { stdio: 'ignore' })`
    const sleepers = () => processesOf(cloud, id).filter(({ command }) => command.startsWith('sleep 4321'))
    for (const end of ['return 1', 'process.exit(0)', 'for (;;) {}']) {
      await execute(`${start}; ${end}`, { timeout_sec: 1 })
      await until('what it has started to end', 20_000, () => sleepers().length === 0, { everyMs: 20 })
    }
  })

  test('is the first process to be killed when the session has no memory left', async () => {
    expect(await result(`return (await import('node:fs')).readFileSync('/proc/self/oom_score_adj', 'utf8').trim()`)).toBe('1000')
  })

  test('because its caller leaves is stopped, and the next one runs', async () => {
    const left = new AbortController()
    const run = execute('for (;;) {}', {}, { signal: left.signal }).catch((error: unknown) => error)
    await until('the code to run', 10_000, async () => (await runInside(cloud, id, 'ps -eo pcpu,args | grep worker.t[s]')).output.trim() !== '', {
      everyMs: 100,
    })
    left.abort()
    await run
    expect(await result('return 3')).toBe(3)
  })

  test('leaves nothing for the next: globals, timers, listeners, routes, loops, changed built-ins', async () => {
    const code = `globalThis.left = 1
      Array.prototype.left = () => {}
      setInterval(() => console.log('tick'), 1)
      page.on('console', () => console.log('heard'))
      await page.route('**/*', (route) => route.abort())
      await page.exposeFunction('leftBehind', () => 1)
      void (async () => { for (;;) await page.title() })()
      return 1`
    expect(await result(code)).toBe(1)
    const next = await execute(`await page.goto('${pages.url('second')}')
      await page.evaluate(() => console.log('x'))
      await page.waitForTimeout(50)
      return [typeof left, typeof [].left, await page.evaluate(() => typeof leftBehind), await page.title()]`)
    expect(next).toEqual({ success: true, result: ['undefined', 'undefined', 'undefined', 'second'], stdout: '', stderr: '' })
  })

  test('is not retried by the SDK, because its answer is not an HTTP error', async () => {
    const retrying = cloud.client.withOptions({ maxRetries: 2 })
    await retrying.browsers.playwright.execute(id, { code: `const fs = await import('node:fs'); fs.appendFileSync('/home/kernel/runs', 'x'); process.exit(1)` })
    expect((await runInside(cloud, id, 'cat runs')).output).toBe('x')
  })
})

describe('Playwright runs', () => {
  test('run one after the other, in the order of their arrival', async () => {
    const order = await Promise.all(
      Array.from({ length: 5 }, async (_, index) => {
        // The calls use different connections, so a pause keeps their order. The first one runs until all have arrived.
        await new Promise((resolve) => setTimeout(resolve, index * 400))
        const code = `const from = Date.now(); await page.waitForTimeout(${index === 0 ? 2_400 : 50}); return [from, Date.now()]`
        return result(code) as Promise<[number, number]>
      }),
    )
    for (let i = 1; i < order.length; i++) expect(order[i]![0]).toBeGreaterThanOrEqual(order[i - 1]![1])
  })

  test('use the frontmost page', async () => {
    await result(`const other = await context.newPage(); await other.goto('${pages.url('third')}')`)
    expect(await result('return await page.title()')).toBe('third')
    await result('await context.pages().find((each) => each !== page).bringToFront()')
    expect(await result('return await page.title()')).toBe('second')
    await result('for (const each of context.pages()) if (each !== page) await each.close()')
  })

  test('that close every page, the context or the browser do not end the session', async () => {
    expect(await execute('await context.close()')).toMatchObject({ success: true })
    expect(await execute('await browser.close()')).toMatchObject({ success: true })
    expect(await result('return await page.title()')).toBe('second')
    await execute('for (const each of context.pages()) await each.close()')
    expect(await result('return context.pages().length')).toBe(1)
  })

  test('continue after Chromium has crashed and restarted', async () => {
    const before = await until('Chromium to be there', 10_000, running, { everyMs: 50 })
    process.kill(before, 'SIGKILL')
    // The killed process keeps its connections for a moment after its command line is gone, so a run could still reach it.
    await until('the end of the killed Chromium', 10_000, () => !existsSync(`/proc/${before}`))
    expect(await result('return browser.isConnected()')).toBe(true)
    expect(running()).not.toBe(before)
  })

  test.each([
    ['was killed between two runs', () => crashed(() => cloud.client.browsers.process.exec(id, { command: 'pkill', args: ['-KILL', '-f', 'type=renderer'] }))],
    ['was crashed by another client', () => crashed(crashByCdp)],
    [
      'crashed in a run',
      () => execute(`const cdp = await context.newCDPSession(page); cdp.send('Page.crash').catch(() => {}); await page.waitForEvent('crash')`),
    ],
  ])('load the next page in a tab whose page %s', async (_how, crash) => {
    await result(`await page.goto('${pages.url('crashing')}')`)
    await crash()
    expect(await result(`await page.goto('${pages.url('after')}'); return [await page.title(), context.pages().length]`)).toEqual(['after', 1])
  })

  test('find no print preview, whoever has opened it, and never take it for their page', async () => {
    const prints = () => cloud.client.browsers.computer.clickMouse(id, { x: 200, y: 300 })
    const isOpen = async () => {
      const browser = await chromium.connectOverCDP(cdpUrl)
      const cdp = await browser.newBrowserCDPSession()
      const { targetInfos } = await cdp.send('Target.getTargets')
      await browser.close()
      return targetInfos.some(({ url }) => url === 'chrome://print/')
    }
    await result(`await page.setContent('<title>printed</title><button onclick="print()" style="position:fixed;inset:0">print</button>')`)
    // First with the previous run's connection, which Playwright keeps, then with a new one.
    for (const code of ['return 1', 'await browser.newBrowserCDPSession()']) {
      await result(code)
      await prints()
      await until('the print preview', 10_000, isOpen)
      expect(await result('return [await page.title(), context.pages().length]')).toEqual(['printed', 1])
    }
    // A run itself opens the preview.
    await result(`page.evaluate('print()').catch(() => {})`)
    await until('the print preview', 10_000, isOpen)
    expect(await result('return page.title()')).toBe('printed')
    await result(`await page.goto('${pages.url('second')}')`)
  })

  test('change nothing for other clients: downloads, dialogs, media', async () => {
    const browser = await chromium.connectOverCDP(cdpUrl)
    try {
      const page = browser.contexts()[0]!.pages()[0]!
      await page.emulateMedia({ colorScheme: 'dark' })
      await page.goto(pages.url('fourth'))
      await result('return 1')
      expect(await page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")).toBe(true)
      const download = page.waitForEvent('download')
      await page.evaluate("void Object.assign(document.createElement('a'), { href: URL.createObjectURL(new Blob(['x'])), download: 'mine.txt' }).click()")
      expect((await download).suggestedFilename()).toBe('mine.txt')
      page.once('dialog', (dialog) => void setTimeout(() => void dialog.accept(), 300))
      expect(await page.evaluate("confirm('sure?')")).toBe(true)
    } finally {
      await browser.close()
    }
  })

  test('leave a dialog to its client that opens right after a run', async () => {
    const browser = await chromium.connectOverCDP(cdpUrl)
    try {
      const page = browser.contexts()[0]!.pages()[0]!
      page.on('dialog', (dialog) => void setTimeout(() => void dialog.accept(), 300))
      // The agent handles a run's leftovers, such as a dialog, until all processes of the run have ended.
      await result(`(await import('node:child_process')).spawn('sleep', ['0.02'])`)
      expect(await page.evaluate("confirm('sure?')")).toBe(true)
    } finally {
      await browser.close()
    }
  })

  test('get the downloads that they wait for', async () => {
    const code = `await page.goto('${pages.url('fifth')}')
      const waited = page.waitForEvent('download')
      await page.evaluate(() => { const link = document.createElement('a'); link.href = URL.createObjectURL(new Blob(['mine'])); link.download = 'mine.txt'; link.click() })
      const download = await waited
      await download.saveAs('/home/kernel/saved.txt')
      return download.suggestedFilename()`
    expect(await result(code)).toBe('mine.txt')
    expect((await runInside(cloud, id, 'cat saved.txt')).output).toBe('mine')
  })

  test('have the environment of the session, and nothing of the agent’s', async () => {
    expect(await result(`return [(await import('node:os')).userInfo().username, process.cwd(), Object.keys(process.env).sort()]`)).toEqual([
      'kernel',
      '/home/kernel',
      ['HOME', 'LANG', 'NODE_COMPILE_CACHE', 'PATH', 'TMPDIR', 'USER'],
    ])
  })
})

test('after all Playwright runs the agent has one worker, and uses no more memory than before', async () => {
  await until('one worker', 5_000, () => workers().length === 1, { everyMs: 50 })
  const agent = processesOf(cloud, id).find(({ pid }) => pid === agentOf(cloud, id))!
  expect(Number(/^VmRSS:\s+(\d+)/m.exec(agent.status)![1]) / 1024).toBeLessThan(300)
})
