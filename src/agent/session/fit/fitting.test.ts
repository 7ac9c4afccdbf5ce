// The steps of fitting over parts that fail as a test requires: each step has a check, and its error names the setting.
import { describe, expect, test, vi } from 'vitest'
import { silentLog } from '../../../base/log.ts'
import type { Watchdog } from '../../../base/watchdog.ts'
import { fault } from '../../../http/fault.ts'
import type { CdpSession } from '../../chromium/cdp.ts'
import { openPages } from '../../chromium/pages.ts'
import type { ChromiumRun } from '../../chromium/process.ts'
import { Fit } from '../contract.ts'
import { makeFitting, type Fitting } from './fitting.ts'
import type { FitParts } from './parts.ts'
import { fitSteps } from './steps.ts'
import { atOnce, type Step } from './step.ts'

const alreadyFull = async () => {}

/** Parts that record their calls and succeed. */
function parts() {
  const did: string[] = []
  const note = (what: string) => void did.push(what)
  let startedAt = performance.now()
  const watchdog: Watchdog = { watch: () => () => {}, allow: (ms) => void Object.assign(watchdog, { allowedMs: ms }), allowedMs: 0 }
  const page = {
    on: () => {},
    send: async (method: string) => (note(method), {}),
  }
  const browser = {
    run: async () => ({ startedAt }) as ChromiumRun,
    restart: async (how?: { asPerson?: boolean }) => {
      note(how?.asPerson ? 'restart as a person' : 'restart')
      startedAt = performance.now()
    },
    withFirstPage: async (work: (page: CdpSession) => Promise<unknown>) => void (await work(page as unknown as CdpSession)),
    opens: () => {},
  }
  const made = {
    watchdog,
    browser,
    pages: openPages(browser, silentLog),
    screen: { resize: async () => note('resize') },
    window: {
      setFullscreen: async (fullscreen: boolean) => {
        note(`full screen: ${fullscreen}`)
        return async () => note('window follows')
      },
      fillsScreen: async () => note('window fills the screen'),
      pageFills: async (fullscreen: boolean) => note(`page fills the ${fullscreen ? 'screen' : 'window'}`),
      holdFullscreen: async () => {},
    },
    writePolicy: () => note('policy'),
    loader: {
      load: async (names: readonly string[]) => (note(`load ${names.join()}`), async () => note('extensions run')),
      again: async () => atOnce,
    },
    proxy: {
      isOn: false as boolean,
      use: async ({ on }: { on: boolean }) => {
        note(`proxy: ${on}`)
        made.proxy.isOn = on
      },
      confirmed: async () => note('proxy confirmed'),
    },
    writePopupPolicy: () => note('pop-ups'),
    setTimeZone: async (zone: string) => note(`time zone: ${zone}`),
    inputQueue: { letGo: async () => note('let go') },
    eventBuffer: { capture: async ({ categories }) => note(`capture ${categories.join(' ')}`), hideFromNext: () => note('hide') },
    secrets: { forget: () => note('forget') },
    log: silentLog,
  } satisfies FitParts
  return { made, page, did, fitting: makeFitting(fitSteps(made), alreadyFull, silentLog) }
}

const viewport = { width: 800, height: 600, refresh_rate: 60 }
const fails = async (): Promise<never> => {
  throw new Error('it does not')
}
const failure = (work: Promise<void>) =>
  work.then(
    () => 'done',
    (error: Error & { status?: number }) => `${error.status}: ${error.message}`,
  )

test('what one caller has typed is neither told to the next one nor left out of their events', async () => {
  const { fitting, did } = parts()
  await fitting.fit({ let_go: true })
  expect(did).toEqual(['let go', 'hide', 'forget'])
})

test('each setting is applied by one step', () => {
  const applied = fitSteps(parts().made).flatMap(({ settings }) => settings)
  expect(applied.toSorted()).toEqual(Object.keys(Fit.shape).toSorted())
})

test('a browser that is fitted to full screen ahead has kept it before it counts as fitted; a session that gets it later is set to it again', async () => {
  const { fitting, did, made } = parts()
  made.window.holdFullscreen = async () => void did.push('held')
  await fitting.fit({ fullscreen: true })
  expect(did).toEqual(['full screen: true', 'window follows', 'page fills the screen', 'held', 'Page.bringToFront'])
  did.length = 0
  await fitting.fit({ timeout_seconds: 60, viewport })
  expect(did.slice(0, 5)).toEqual(['resize', 'window fills the screen', 'full screen: true', 'window follows', 'page fills the screen'])
})

test('a new session: the proxy, the policy, then extensions, the screen, its window, the page in it, and what that shows', async () => {
  const { fitting, did, made } = parts()
  const wanted = {
    timeout_seconds: 60,
    viewport,
    fullscreen: true,
    chrome_policy: { A: 1 },
    extensions: ['a', 'b'],
    start_url: 'about:blank',
    proxy: { on: true },
  }
  await fitting.fit(wanted)
  expect(did).toEqual([
    'proxy: true',
    'proxy confirmed',
    'policy',
    'restart',
    'load a,b',
    'extensions run',
    'resize',
    'window fills the screen',
    'full screen: true',
    'window follows',
    'page fills the screen',
    'Page.bringToFront',
    'Page.enable',
    'Page.navigate',
  ])
  expect(made.watchdog.allowedMs).toBe(60_000)
})

test('a time zone that pages do not get is named', async () => {
  const { made } = parts()
  const fitting = makeFitting(fitSteps({ ...made, setTimeZone: async () => Promise.reject(new Error('pages see another one')) }), alreadyFull, silentLog)
  expect(await failure(fitting.fit({ time_zone: 'Asia/Tokyo' }))).toBe('503: the browser did not take its time_zone')
})

test('stealth: the proxy and the time zone, then a start of Chromium as a person does it, with pop-ups blocked', async () => {
  const { fitting, did } = parts()
  await fitting.fit({ stealth: true, time_zone: 'Asia/Tokyo', proxy: { on: true, links: 'a-key-of-links-16' } })
  expect(did).toEqual(['proxy: true', 'proxy confirmed', 'time zone: Asia/Tokyo', 'pop-ups', 'restart as a person'])
})

test('a running session: a viewport and a start page leave its window alone', async () => {
  const { fitting, did } = parts()
  await fitting.fit({ viewport })
  await fitting.fit({ start_url: 'about:blank' })
  expect(did).toEqual(['resize', 'window fills the screen', 'Page.bringToFront', 'Page.enable', 'Page.navigate'])
})

describe('a setting that has not taken effect is named', () => {
  test.each<[string, Fit, (given: ReturnType<typeof parts>) => unknown]>([
    ['timeout_seconds', { timeout_seconds: 60 }, ({ made }) => vi.spyOn(made.watchdog, 'allow').mockReturnValue()],
    ['chrome_policy', { chrome_policy: { A: 1 } }, ({ made }) => vi.spyOn(made.browser, 'restart').mockResolvedValue()],
    ['stealth', { stealth: true }, ({ made }) => vi.spyOn(made.browser, 'restart').mockResolvedValue()],
    ['extensions', { extensions: ['a'] }, ({ made }) => vi.spyOn(made.loader, 'load').mockResolvedValue(fails)],
    ['extensions', { extensions: ['a'] }, ({ made }) => vi.spyOn(made.loader, 'load').mockImplementation(fails)],
    ['viewport', { viewport }, ({ made }) => vi.spyOn(made.screen, 'resize').mockImplementation(fails)],
    ['viewport', { viewport }, ({ made }) => vi.spyOn(made.window, 'fillsScreen').mockImplementation(fails)],
    ['viewport', { viewport, timeout_seconds: 60 }, ({ made }) => vi.spyOn(made.window, 'pageFills').mockImplementation(fails)],
    ['fullscreen', { fullscreen: true }, ({ made }) => vi.spyOn(made.window, 'setFullscreen').mockResolvedValue(fails)],
    ['fullscreen', { fullscreen: true, viewport, timeout_seconds: 60 }, ({ made }) => vi.spyOn(made.window, 'pageFills').mockImplementation(fails)],
    ['let_go', { let_go: true }, ({ made }) => vi.spyOn(made.inputQueue, 'letGo').mockImplementation(fails)],
    ['proxy', { proxy: { on: true } }, ({ made }) => vi.spyOn(made.proxy, 'confirmed').mockImplementation(fails)],
    ['start_url', { start_url: 'about:blank' }, ({ page }) => vi.spyOn(page, 'send').mockImplementation(fails)],
  ])('%s, of %j', async (name, wanted, spoil) => {
    const given = parts()
    spoil(given)
    expect(await failure(given.fitting.fit(wanted))).toBe(`503: the browser did not take its ${name}`)
  })

  test('start_url that does not begin to load within its limit', async () => {
    const { fitting, page } = parts()
    page.send = async (method) => (method === 'Page.navigate' ? new Promise<never>(() => {}) : {})
    vi.useFakeTimers()
    try {
      const failed = failure(fitting.fit({ start_url: 'about:blank' }))
      await vi.advanceTimersByTimeAsync(10_000)
      expect(await failed).toBe('503: the browser did not take its start_url')
    } finally {
      vi.useRealTimers()
    }
  })
})

test('what the caller has given wrong is told as such, and not tried again', async () => {
  const { fitting, made } = parts()
  const load = vi.spyOn(made.loader, 'load').mockRejectedValue(fault.field('extensions', 'Chromium does not load "a"'))
  expect(await failure(fitting.fit({ extensions: ['a'] }))).toBe('400: extensions: Chromium does not load "a"')
  expect(load).toHaveBeenCalledTimes(1)
})

test('a page that cannot be opened is no error of its setting', async () => {
  const { fitting, page } = parts()
  page.send = async (method) => {
    if (method === 'Page.navigate') throw new Error('Cannot navigate to invalid URL')
    return {}
  }
  await fitting.fit({ start_url: 'http://[' })
})

test('a window that leaves full screen again is told again', async () => {
  const { fitting, made, did } = parts()
  vi.spyOn(made.window, 'pageFills').mockRejectedValueOnce(new Error('the window has left full screen'))
  await fitting.fit({ fullscreen: true, timeout_seconds: 60 })
  expect(did.filter((what) => what === 'full screen: true')).toHaveLength(2)
})

describe('after a restart of Chromium', () => {
  test('a window that was in full screen enters it again, and one that was not is left alone', async () => {
    const { fitting, did } = parts()
    await fitting.fit({ viewport, start_url: 'about:blank', chrome_policy: {}, timeout_seconds: 60 })
    did.length = 0
    await fitting.afterRestart()
    expect(did).toEqual([])
    await fitting.fit({ fullscreen: true })
    did.length = 0
    await fitting.afterRestart()
    expect(did).toEqual(['full screen: true', 'window follows'])
    await fitting.fit({ fullscreen: false })
    did.length = 0
    await fitting.afterRestart()
    expect(did).toEqual([])
  })

  test('extensions are loaded again, and that they run is checked', async () => {
    const { fitting, made } = parts()
    const again = vi.spyOn(made.loader, 'again')
    await fitting.afterRestart()
    expect(again).toHaveBeenCalledTimes(1)
    again.mockResolvedValue(fails)
    expect(await failure(fitting.afterRestart())).toBe('503: the browser did not take its extensions')
  })

  test('the proxy is in use again, if there is one', async () => {
    const { fitting, did } = parts()
    await fitting.fit({ proxy: { on: true } })
    did.length = 0
    await fitting.afterRestart()
    expect(did).toEqual(['proxy confirmed'])
    await fitting.fit({ proxy: { on: false } })
    did.length = 0
    await fitting.afterRestart()
    expect(did).toEqual([])
  })

  test('a setting that cannot be applied again is named', async () => {
    const { fitting, made } = parts()
    await fitting.fit({ fullscreen: true })
    vi.spyOn(made.window, 'setFullscreen').mockResolvedValue(fails)
    expect(await failure(fitting.afterRestart())).toBe('503: the browser did not take its fullscreen')
  })

  test('that a step has caused itself, what earlier calls have set is applied again within that step', async () => {
    const { fitting, made, did } = parts()
    await fitting.fit({ fullscreen: true })
    const { restart } = made.browser
    made.browser.restart = async () => {
      await restart()
      await fitting.afterRestart()
    }
    did.length = 0
    await fitting.fit({ chrome_policy: { A: 1 } })
    expect(did).toEqual(['policy', 'restart', 'full screen: true', 'window follows'])
  })
})

describe('steps', () => {
  const of = (step: Step): Fitting => makeFitting([step], alreadyFull, silentLog)

  test('run one call at a time, and do not delay calls that do not need them', async () => {
    let running = 0
    const gate = Promise.withResolvers<void>()
    const slow: Step = {
      settings: ['start_url'],
      async apply() {
        expect(++running).toBe(1)
        await gate.promise
        return async () => void running--
      },
    }
    const fitting = makeFitting([slow, { settings: ['fullscreen'], apply: async () => atOnce }], alreadyFull, silentLog)
    const both = Promise.all([fitting.fit({ start_url: 'a:' }), fitting.fit({ start_url: 'b:' })])
    await fitting.fit({ fullscreen: true })
    gate.resolve()
    await both
  })

  test('are tried as often as they say, and the steps after one that failed are left out', async () => {
    const apply = vi.fn(async () => fails)
    const after = vi.fn(async () => atOnce)
    const fitting = makeFitting(
      [
        { settings: ['viewport'], tries: 3, apply },
        { settings: ['start_url'], apply: after },
      ],
      alreadyFull,
      silentLog,
    )
    await expect(fitting.fit({ viewport, start_url: 'a:' })).rejects.toMatchObject({ status: 503, cause: new Error('it does not') })
    expect([apply.mock.calls.length, after.mock.calls.length]).toEqual([3, 0])
    await of({ settings: ['start_url'], apply: after }).fit({ viewport })
    expect(after).not.toHaveBeenCalled()
  })

  test('a lean browser becomes the full one before a step that needs it, and only then; when it does not, the step is not tried', async () => {
    const did: string[] = []
    const step: Step = { settings: ['proxy'], needsFull: ({ proxy }) => proxy?.on === true, apply: async () => (did.push('step'), atOnce) }
    const fitting = makeFitting([step], async () => void did.push('full'), silentLog)
    await fitting.fit({ proxy: { on: false } })
    await fitting.fit({ proxy: { on: true } })
    expect(did).toEqual(['step', 'full', 'step'])
    const failing = makeFitting([step], async () => Promise.reject(fault.unavailable('the full browser did not start')), silentLog)
    await expect(failing.fit({ proxy: { on: true } })).rejects.toMatchObject({ status: 503, message: expect.stringContaining('the full browser') })
    expect(did).toHaveLength(3)
  })
})
