// Density: as many sessions as the machine holds, each with the page of a shop; and that shop. What a session costs of everything together, what a create
// takes beside the others, and how many were lost.
import { createServer } from 'node:http'
import sharp from 'sharp'
import { memoryNow } from '../src/base/memory.ts'
import { sleep, within } from '../src/base/wait.ts'
import { hasSwap } from '../src/instances/local/standby.ts'
import { seeded } from '../test/support/seeded.ts'
import { isAsleep } from '../test/support/standby.ts'
import { serveSockets } from '../test/support/upstreams.ts'
import type { Bench } from './bench.ts'
import { openCdp, pageOf } from './cdp.ts'
import { openPage } from './drive.ts'
import { row, timed, type Row } from './figures.ts'
import { say } from './say.ts'
import { LEAN } from './lean.ts'
import { startService, type Service, type Session } from './sessions.ts'
import { STANDBY } from './standby.ts'
import { cpuSeconds, memoryMb, tree } from './usage.ts'

/** No session is added while less than this part of the memory is free, so that the kernel ends no program of others, and the creates beside them fit. */
const FREE_FLOOR = 0.1
/** A machine that needs longer for a create holds no more sessions. */
const CREATE_MS = 15_000
const PAGE_MS = 60_000
const END_MS = 60_000
/** Memory of sessions that sleep goes to swap 20 s after they fell asleep, one after the other. */
const GIVEN_BACK_MS = 120_000
/** A browser continues its start for a while after its first answer, and a session falls asleep after its last use. */
const SETTLE_MS = 5_000
/** Longer than any run, so that no session times out. */
const TIMEOUT_SECONDS = 7_200
/** Sessions that end at once. */
const ENDS_AT_ONCE = 4
/** How many lost sessions are told of with their reasons. */
const TOLD = 4

interface Form {
  id: string
  what: string
  /** Of the create's body. */
  options: object
  /** Settings of the service. */
  env?: Record<string, string>
  sleeps?: true
}

/** One after the other, each with a service of its own. */
export async function measureDensity(bench: Bench): Promise<Row[]> {
  await using shop = await serveShop()
  const swap = hasSwap() ? 'with swap' : 'without swap, so they keep their memory'
  const forms: Form[] = [
    { id: 'full', what: 'full', options: {} },
    { id: 'lean', what: 'lean', options: { headless: true }, env: LEAN },
    { id: 'asleep', what: `asleep (full, ${swap})`, options: {}, env: STANDBY, sleeps: true },
  ]
  const rows: Row[] = []
  for (const form of forms) rows.push(...(await measureForm(bench, form, shop.address)))
  return rows
}

async function measureForm({ counts, signal, rest }: Bench, form: Form, address: string): Promise<Row[]> {
  await using scope = new AsyncDisposableStack()
  const service = scope.use(await startService(0, signal, { COB_MAX_BROWSERS: String(counts.density + 1), ...form.env }))
  const made: Session[] = []
  scope.defer(() => endAll(service, made))
  await rest()
  const freeBefore = memoryNow().freeBytes
  const { live, creates, why } = await fill(service, form, address, made, counts.density, signal)
  say(`${form.what}: ${live.length} sessions at once: ${why}`)
  const rows = [row(`density_${form.id}`, `${form.what}: sessions at once (${why})`, '', [live.length])]
  if (live.length === 0) return rows

  await sleep(form.sleeps && hasSwap() ? counts.asleepMs : SETTLE_MS, signal)
  if (form.sleeps) rows.push(row(`density_${form.id}_sleeping`, '  of them asleep', '', [live.filter(({ id }) => isAsleep(service.cloud, id)).length]))
  // Sessions are child processes of the service, and so is its Postgres.
  const all = () => tree(service.cloud.pid())
  const used = () => ({ cpu: cpuSeconds(all()), at: performance.now() })
  const before = used()
  await sleep(counts.idleMs, signal)
  const after = used()
  const cpu = (100 * (after.cpu - before.cpu)) / ((after.at - before.at) / 1000)
  const less = (freeBefore - memoryNow().freeBytes) / 2 ** 20
  const each = (value: number) => [value / live.length]
  rows.push(
    row(`density_${form.id}_memory`, '  memory of everything (Pss) for each', 'MB', each(memoryMb(all())), { what: 'less free memory', samples: each(less) }),
    row(`density_${form.id}_cpu`, '  CPU at rest of everything for each (% of a core)', '%', each(cpu)),
    ...(await createsBeside(service, form, creates, counts.densityCreates, rest, signal)),
    row(`density_${form.id}_lost`, '  lost', '', [await countLost(live, form, signal)]),
  )
  return rows
}

interface Filled {
  /** Those that have shown the page, in the order of their marks. */
  live: Session[]
  /** What their creates took, in milliseconds. */
  creates: number[]
  /** Why there are no more. */
  why: string
}

/** Adds sessions to `made` until there are `most` of them, or the machine holds no more. */
async function fill(service: Service, form: Form, address: string, made: Session[], most: number, signal: AbortSignal): Promise<Filled> {
  const filled = { live: [] as Session[], creates: [] as number[] }
  while (filled.live.length < most) {
    if (!(await hasRoom(form, signal))) return { ...filled, why: `less than ${100 * FREE_FLOOR} % of the memory is free` }
    try {
      const { ms, result: session } = await timed(() => service.create({ ...form.options, timeout_seconds: TIMEOUT_SECONDS }))
      made.push(session)
      await within('the page of the shop', PAGE_MS, openPage(session.cdpUrl, address), signal)
      await ask<void>(session, `shop.visit(${filled.live.length})`, signal)
      filled.live.push(session)
      filled.creates.push(ms)
      if (ms > CREATE_MS) return { ...filled, why: `the last create took longer than ${CREATE_MS} ms` }
    } catch (error) {
      signal.throwIfAborted()
      say(`${form.what}: session ${filled.live.length + 1} failed: ${(error as Error).message}`)
      return { ...filled, why: 'the next one failed' }
    }
  }
  return { ...filled, why: 'the most that were asked for' }
}

/** Whether enough memory is free. Sessions that sleep are given the time to give theirs back. */
async function hasRoom({ sleeps }: Form, signal: AbortSignal): Promise<boolean> {
  const end = performance.now() + (sleeps && hasSwap() ? GIVEN_BACK_MS : 0)
  for (;;) {
    const { totalBytes, freeBytes } = memoryNow()
    if (freeBytes >= FREE_FLOOR * totalBytes) return true
    if (performance.now() >= end) return false
    await sleep(1_000, signal)
  }
}

/** Creates with nothing warm, each with its delete, while the others live. `grown`: what their own creates took. */
async function createsBeside(
  service: Service,
  { id, options }: Form,
  grown: number[],
  count: number,
  rest: () => Promise<void>,
  signal: AbortSignal,
): Promise<Row[]> {
  const creates: number[] = []
  let failed = 0
  for (let i = 0; i < count; i++) {
    await rest()
    try {
      const { ms, result: session } = await timed(() => service.create(options))
      await session.delete()
      creates.push(ms)
    } catch (error) {
      signal.throwIfAborted()
      say(`a create beside the others, or its delete, failed: ${(error as Error).message}`)
      failed++
    }
  }
  const beside = { what: 'while their number grew', samples: grown }
  return [
    ...(creates.length > 0 ? [row(`density_${id}_create`, '  create beside them (POST answered)', 'ms', creates, beside)] : []),
    row(`density_${id}_failed`, '  of these, failed', '', [failed]),
  ]
}

/** How many sessions no longer have the page that they have shown. */
async function countLost(live: readonly Session[], form: Form, signal: AbortSignal): Promise<number> {
  let lost = 0
  let hasWaitedInVain = false
  for (const [mark, session] of live.entries()) {
    // Each one wakes, and takes memory again until it sleeps. When the swap is full, no wait gives room.
    hasWaitedInVain ||= !(await hasRoom(form, signal))
    try {
      const marks = await ask<string>(session, 'shop.marks()', signal)
      if (marks !== `${mark} ${mark}`) throw new Error(`its page has the marks "${marks}"`)
    } catch (error) {
      signal.throwIfAborted()
      if (++lost <= TOLD) say(`session ${mark + 1} of ${live.length} is lost: ${(error as Error).message}`)
    }
  }
  return lost
}

async function ask<T>(session: Session, expression: string, signal: AbortSignal): Promise<T> {
  using cdp = await openCdp(session.cdpUrl, signal)
  return await (await pageOf(cdp)).value<T>(expression)
}

/** Ends all, also after an interruption: the service's own end has too little time for so many. */
async function endAll({ cloud }: Service, made: readonly Session[]): Promise<void> {
  const left = [...made]
  const failed: string[] = []
  const end = async () => {
    for (let session = left.pop(); session; session = left.pop())
      await within('the end of a session', END_MS, cloud.remove(session.id)).catch(({ message }: Error) => failed.push(message))
  }
  await Promise.all(Array.from({ length: ENDS_AT_ONCE }, end))
  if (failed.length > 0) say(`${failed.length} sessions are left to the end of their service: ${failed[0]}`)
}

const PRODUCTS = 480
/** Products that the page shows at once, each with its own picture. */
const PER_PAGE = 48
const KINDS = ['lamps', 'chairs', 'shelves', 'carpets', 'clocks', 'vases']
const PICTURE = { width: 640, height: 480 }

/** Shapes with soft edges and a grain, so that a JPEG of it is as large as that of a photograph. */
function drawn(at: number): Promise<Buffer> {
  const random = seeded(at + 1)
  const shape = () => {
    const [x, y, r, colour] = [random() * PICTURE.width, random() * PICTURE.height, 20 + random() * 140, Math.floor(random() * 2 ** 24)]
    return `<circle cx="${x}" cy="${y}" r="${r}" fill="#${colour.toString(16).padStart(6, '0')}" fill-opacity="0.4"/>`
  }
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${PICTURE.width}" height="${PICTURE.height}">
    <filter id="grain"><feTurbulence type="fractalNoise" baseFrequency="0.7" seed="${at}"/></filter>
    <rect width="100%" height="100%" fill="#f4f1ea"/>${Array.from({ length: 30 }, shape).join('')}
    <rect width="100%" height="100%" filter="url(#grain)" opacity="0.3"/></svg>`
  return sharp(Buffer.from(svg)).jpeg({ quality: 80 }).toBuffer()
}

const products = (): object[] => {
  const random = seeded(1)
  return Array.from({ length: PRODUCTS }, (_, id) => ({
    id,
    name: `${KINDS[id % KINDS.length]!} no. ${id}`,
    kind: KINDS[id % KINDS.length],
    price: Math.round(500 + random() * 50_000) / 100,
    stars: Math.round(random() * 50) / 10,
    text: 'Made by hand of old oak, oiled and waxed, with a cable of linen and a warranty of five years. '.repeat(3),
    picture: `/picture/${id % PER_PAGE}.jpg`,
  }))
}

const SHOP = `<!doctype html><html lang="en"><meta charset="utf-8"><title>The shop</title><link rel="icon" href="data:,">
<style>
  body { margin: 0; font: 15px/1.45 "Liberation Sans", sans-serif; background: #faf8f4; color: #222 }
  header { position: sticky; top: 0; display: flex; gap: 24px; align-items: center; padding: 14px 32px; background: white; box-shadow: 0 2px 12px #0002 }
  #grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(260px, 1fr)); gap: 20px; padding: 24px 32px }
  article { background: white; border-radius: 12px; overflow: hidden; box-shadow: 0 4px 16px #0001; transition: transform .2s }
  article:hover { transform: translateY(-4px) }
  img { width: 100%; aspect-ratio: 4 / 3; object-fit: cover; display: block }
  article > div { padding: 12px 16px }
  button { border: 0; border-radius: 8px; padding: 8px 14px; background: #1d4ed8; color: white }
</style>
<header><h1>The shop</h1><select id="kind"><option value="">everything</option>${KINDS.map((kind) => `<option>${kind}</option>`).join('')}</select>
<select id="order"><option>price</option><option>stars</option><option>name</option></select><span id="offer"></span><b id="basket"></b></header>
<main id="grid"></main><script src="/shop.js"></script></html>`

/** Runs in the page. Its marks are in memory and in localStorage: a page that was loaded again has lost the first. */
const SCRIPT = `const shop = (() => {
  const [kind, order, offer, basket, grid] = ['kind', 'order', 'offer', 'basket', 'grid'].map((id) => document.getElementById(id))
  const kept = JSON.parse(localStorage.getItem('basket') ?? '[]')
  let [products, mark] = [[], undefined]
  const compare = { price: (a, b) => a.price - b.price, stars: (a, b) => b.stars - a.stars, name: (a, b) => a.name.localeCompare(b.name) }
  const card = (product) => {
    const article = document.createElement('article')
    article.innerHTML = '<img><div><h3></h3><p></p><b></b> <button>Add to basket</button></div>'
    const [picture, name, text, price, button] = article.querySelectorAll('img, h3, p, b, button')
    picture.src = product.picture
    name.textContent = product.name + ' \\u2605 ' + product.stars
    text.textContent = product.text
    price.textContent = '$ ' + product.price.toFixed(2)
    button.onclick = () => add(product)
    return article
  }
  const add = ({ id }) => {
    kept.push(id)
    localStorage.setItem('basket', JSON.stringify(kept))
    basket.textContent = 'Basket: ' + kept.length
  }
  const show = async () => {
    const found = products.filter((product) => kind.value === '' || product.kind === kind.value).toSorted(compare[order.value])
    grid.replaceChildren(...found.slice(0, ${PER_PAGE}).map(card))
    await Promise.all([...grid.querySelectorAll('img')].map((picture) => picture.decode()))
  }
  kind.onchange = order.onchange = show
  const ends = Date.now() + 3_600_000
  setInterval(() => (offer.textContent = 'This offer ends in ' + Math.max(0, Math.round((ends - Date.now()) / 1000)) + ' s'), 1000)
  const ready = fetch('/products.json').then((answer) => answer.json()).then((all) => ((products = all), show()))
  return {
    /** What a visitor does: looks, sorts, filters, buys. */
    async visit(own) {
      await ready
      order.value = 'stars'
      await show()
      kind.value = '${KINDS[0]}'
      await show()
      grid.querySelector('button').click()
      kind.value = ''
      await show()
      localStorage.setItem('mark', own)
      mark = own
    },
    marks: () => mark + ' ' + localStorage.getItem('mark'),
  }
})()`

/** Serves the shop on this machine's loopback; `address` is for sessions. */
async function serveShop(): Promise<{ address: string } & AsyncDisposable> {
  const files = new Map<string, { type: string; body: string | Buffer }>([
    ['/', { type: 'text/html; charset=utf-8', body: SHOP }],
    ['/shop.js', { type: 'text/javascript; charset=utf-8', body: SCRIPT }],
    ['/products.json', { type: 'application/json', body: JSON.stringify(products()) }],
  ])
  for (let at = 0; at < PER_PAGE; at++) files.set(`/picture/${at}.jpg`, { type: 'image/jpeg', body: await drawn(at) })
  const server = createServer((request, response) => {
    const file = files.get(request.url ?? '')
    if (!file) return void response.writeHead(404).end()
    response.writeHead(200, { 'content-type': file.type, 'cache-control': 'max-age=3600' }).end(file.body)
  })
  const { port, ...served } = await serveSockets(server)
  return { address: `http://host.cob.internal:${port}/`, [Symbol.asyncDispose]: () => served[Symbol.asyncDispose]() }
}
