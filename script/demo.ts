// The demo: what a user would do by hand, with the official SDK and Playwright. Uses only the public API.
import Kernel, { APIConnectionError, APIUserAbortError, AuthenticationError } from '@onkernel/sdk'
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { chromium } from 'playwright-core'
import { answering, apiKey, serviceUrl, ServiceError } from './service.ts'

/** The service ends the session after this many seconds without use, in case this program is killed. */
const TIMEOUT_SECONDS = 60
/** The demo serves the page itself, through the browser's own network layer: no server, and the browser needs no route to this machine. */
const PAGE_URL = 'http://demo.cob.example/'
/** Where the slider starts and should end; the pointer overshoots on the way and comes back, as a hand does. */
const FROM = 12
const TOO_FAR = 88
const TO = 72

/** A page is loaded before it is drawn; this waits until it has been on the screen for one frame. */
const PAINTED = 'new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 20))))'

interface Slider {
  value: number
  text: string
  /** Middle of the thumb, and ends of the track, in screen pixels. */
  thumb: { x: number; y: number }
  left: number
  right: number
}

async function main(): Promise<void> {
  const url = serviceUrl()
  const folder = process.argv[2] ? resolve(process.argv[2]) : mkdtempSync(join(tmpdir(), 'cob-demo-'))
  mkdirSync(folder, { recursive: true })
  const interrupted = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => interrupted.abort(new ServiceError('stopped')))
  const { signal } = interrupted

  await answering(url, signal)
  const { key, source } = apiKey()
  const client = new Kernel({ apiKey: key, baseURL: url, maxRetries: 0 })
  say(`Cob at ${url}, key from ${source}\n`)

  // The scope cleans up in every case: first Playwright's connection, then the session.
  await using scope = new AsyncDisposableStack()
  const browser = await step(
    'create a browser',
    () => client.browsers.create({ timeout_seconds: TIMEOUT_SECONDS, name: `demo-${process.pid}`, tags: { made_by: 'script/demo' } }, { signal }),
    ({ session_id }) => session_id,
  )
  const { session_id: id } = browser
  let deleted = false
  const remove = async () => {
    if (deleted) return
    deleted = true
    await client.browsers.deleteByID(id)
  }
  scope.defer(remove)

  const playwright = await step(
    'connect Playwright',
    () => whole(signal, chromium.connectOverCDP(browser.cdp_ws_url)),
    (connected) => `Chromium ${connected.version()}`,
  )
  scope.defer(() => playwright.close())
  const context = playwright.contexts()[0]!
  const page = context.pages()[0]!
  await context.route(`${PAGE_URL}**`, (route) => route.fulfill({ contentType: 'text/html; charset=utf-8', body: PAGE }))
  await step(
    'open the page',
    () =>
      whole(
        signal,
        page.goto(PAGE_URL).then(() => page.evaluate(PAINTED)),
      ),
    () => PAGE_URL,
  )

  // The agent's tools do not look into the page: they see the screen and move the mouse on it.
  const screenshot = async (file: string) => {
    const response = await client.browsers.computer.captureScreenshot(id, {}, { signal })
    const png = Buffer.from(await response.arrayBuffer())
    writeFileSync(file, png)
    return png
  }
  const before = join(folder, 'demo-before.png')
  const after = join(folder, 'demo-after.png')
  const read = () => whole(signal, page.evaluate<Slider>('look()'))

  const start = await read()
  if (start.value !== FROM) throw new ServiceError(`the slider should stand at ${FROM}, not at ${start.value}`)
  await step('take a screenshot', () => screenshot(before), size)
  const at = (value: number) => Math.round(start.left + ((start.right - start.left) * value) / 100)
  const y = Math.round(start.thumb.y)
  const path: [number, number][] = [
    [Math.round(start.thumb.x), y],
    [at(40), y - 34],
    [at(TOO_FAR), y + 22],
    [at(TO), y],
  ]
  await step(
    `drag the thumb to ${TO}`,
    () => client.browsers.computer.dragMouse(id, { path }, { signal }),
    () => path.map((point) => point.join(',')).join(' > '),
  )
  await step('take a screenshot', () => screenshot(after), size)
  const end = await step('read the value back', read, ({ text }) => `"${text}", it was "${start.text}"`)
  await playwright.close()
  await step('delete the browser', remove, () => 'gone')

  say(`\n  before  ${before}\n  after   ${after}`)
  if (end.value !== TO) throw new ServiceError(`the slider should stand at ${TO}, not at ${end.value}`)
}

const say = (text: string): void => void process.stdout.write(`${text}\n`)

/** Runs one step; prints its duration and its result. */
async function step<T>(name: string, work: () => Promise<T>, tell: (result: T) => string): Promise<T> {
  const began = performance.now()
  const result = await work()
  say(`  ${name.padEnd(22)} ${(performance.now() - began).toFixed(0).padStart(5)} ms   ${tell(result)}`)
  return result
}

/** A PNG has its width and height at bytes 16 and 20. */
const size = (png: Buffer): string => `${png.readUInt32BE(16)}x${png.readUInt32BE(20)}, ${Math.round(png.length / 1024)} KB`

/** Waits for `work`; rejects with the reason of `signal` when that comes first. */
function whole<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  signal.throwIfAborted()
  return Promise.race([work, new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true }))])
}

const PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Cob demo</title>
<style>
  * { box-sizing: border-box; margin: 0 }
  body { min-height: 100vh; display: grid; place-items: center; background: radial-gradient(circle at 50% 15%, #fffdf4, #f2e8c9 75%); color: #3a3115; font: 20px "Noto Sans", "Liberation Sans", sans-serif; user-select: none }
  main { width: 860px; max-width: 92vw; padding: 52px 60px 56px; background: #fff; border-radius: 28px; box-shadow: 0 30px 70px -30px #7a621b88, 0 0 0 1px #ecdfb4 }
  h1 { font-size: 30px; letter-spacing: -.01em }
  p { margin-top: 8px; color: #8a7b4b }
  output { display: block; margin: 26px 0 18px; font-size: 96px; font-weight: 700; line-height: 1; font-variant-numeric: tabular-nums; color: #b27b00 }
  output small { font-size: 30px; font-weight: 400; color: #b9a876 }
  #cob { display: grid; grid-template-columns: repeat(25, 1fr); gap: 4px; padding: 10px; border-radius: 60px; overflow: hidden; background: #f4edd6 }
  #cob i { height: 24px; border-radius: 9px; background: #e6dcb8 }
  #cob i.ripe { background: linear-gradient(160deg, #ffe27a, #f3ae17); box-shadow: inset 0 -3px 4px #c9820a66 }
  #track { position: relative; height: 12px; margin: 56px 26px 20px; border-radius: 6px; background: #ece3c6 }
  #fill { height: 100%; border-radius: 6px; background: linear-gradient(90deg, #8bb04a, #f0b429) }
  #thumb { position: absolute; top: 50%; width: 52px; height: 52px; margin: -26px; border: 5px solid #fff; border-radius: 50%; background: #f0a90f; box-shadow: 0 6px 16px #8a62039e; cursor: grab; touch-action: none }
  #thumb.held { background: #d98c00; cursor: grabbing }
  svg { position: fixed; inset: 0; width: 100%; height: 100%; pointer-events: none }
  polyline { fill: none; stroke: #2f6f4f; stroke-width: 2.5; stroke-dasharray: 1 6; stroke-linecap: round }
</style>
<main>
  <h1>How ripe is the cob?</h1>
  <p>Drag the thumb. The green dots are where the pointer was.</p>
  <output></output>
  <div id="cob"></div>
  <div id="track"><div id="fill"></div><div id="thumb" role="slider" tabindex="0" aria-label="Ripeness" aria-valuemin="0" aria-valuemax="100"></div></div>
</main>
<svg><polyline points=""></polyline></svg>
<script>
  const [cob, track, fill, thumb, output, trail] = ['#cob', '#track', '#fill', '#thumb', 'output', 'polyline'].map((name) => document.querySelector(name))
  for (let i = 0; i < 75; i++) cob.append(document.createElement('i'))
  let value, held = false
  function set(to) {
    value = Math.min(100, Math.max(0, Math.round(to)))
    thumb.style.left = fill.style.width = value + '%'
    thumb.setAttribute('aria-valuenow', value)
    output.innerHTML = value + '<small> % ripe</small>'
    // Three rows; kernels ripen from the left.
    ;[...cob.children].forEach((kernel, index) => kernel.classList.toggle('ripe', (index % 25) * 4 < value))
  }
  const follow = (event) => {
    const { left, width } = track.getBoundingClientRect()
    set(((event.clientX - left) / width) * 100)
    trail.points.appendItem(Object.assign(document.querySelector('svg').createSVGPoint(), { x: event.clientX, y: event.clientY }))
  }
  thumb.addEventListener('pointerdown', (event) => {
    held = true
    thumb.setPointerCapture(event.pointerId)
    thumb.classList.add('held')
  })
  thumb.addEventListener('pointermove', (event) => held && follow(event))
  thumb.addEventListener('pointerup', () => {
    held = false
    thumb.classList.remove('held')
  })
  /** What the demo asks for: the value, and where things are on the screen (the window's chrome is above the page). */
  function look() {
    const [dx, dy] = [screenX + (outerWidth - innerWidth) / 2, screenY + outerHeight - innerHeight]
    const at = thumb.getBoundingClientRect()
    const along = track.getBoundingClientRect()
    return { value, text: output.innerText, thumb: { x: dx + at.x + at.width / 2, y: dy + at.y + at.height / 2 }, left: dx + along.left, right: dx + along.right }
  }
  set(${FROM})
</script>
</html>`

/** The error message for the user. */
function words(error: unknown): string {
  // The first error is the cause; the failed delete only follows from it.
  if (error instanceof SuppressedError)
    return `${words(error.suppressed)} (the session could not be deleted; if it still lives, its timeout of ${TIMEOUT_SECONDS} s ends it)`
  if (error instanceof APIUserAbortError) return 'stopped'
  if (error instanceof AuthenticationError) return 'the server does not know this API key (KERNEL_API_KEY, or the api-key file of another data directory?)'
  if (error instanceof APIConnectionError) return `the server went away (${error.message})`
  return error instanceof Error ? error.message : String(error)
}

try {
  await main()
} catch (error) {
  process.stderr.write(`demo: ${words(error)}\n`)
  process.exitCode = 1
}
