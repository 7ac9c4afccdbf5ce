// The service's reports about itself: health, status, metrics, its API document and the page made of it.
import { describe, expect, test } from 'vitest'
import { homePage } from '../dashboard/home.ts'
import { fastCloud } from '../../../../test/support/fast-cloud.ts'
import { until } from '../../../base/wait.ts'

const WARM_MS = 10_000

const cloud = fastCloud()

const withoutKey = (path: string) => fetch(cloud.url + path)

test('/health answers without a key', async () => {
  const response = await withoutKey('/health')
  expect([response.status, await response.json()]).toEqual([200, { status: 'ok' }])
})

test('/status shows the state of every part without a key', async () => {
  const response = await withoutKey('/status')
  expect(response.status).toBe(200)
  expect(await response.json()).toEqual({
    status: 'operational',
    groups: [{ name: 'cob', status: 'operational', components: ['api', 'database', 'browsers', 'disk'].map((name) => ({ name, status: 'operational' })) }],
  })
})

describe('GET /', () => {
  test('is a page for browsers: what the service is, that it needs a key, and where docs and status are', async () => {
    const response = await fetch(`${cloud.url}/`, { headers: { accept: 'text/html,application/xhtml+xml;q=0.9,*/*;q=0.8' } })
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
    expect(response.headers.get('content-security-policy')).toMatch(/default-src 'none'.*frame-ancestors 'none'/)
    expect([response.headers.get('x-content-type-options'), response.headers.get('vary')]).toEqual(['nosniff', 'accept'])
    expect(await response.text()).toContain('<title>Cob</title>')
    // The test works with and without a built dashboard.
    const page = homePage()
    expect(page).toMatch(/browser cloud.*API key/s)
    const links = [...page.matchAll(/<a href="([^"]+)"/g)].map(([, path]) => path!)
    expect(links).toEqual(expect.arrayContaining(['/docs', '/status']))
    for (const link of links) expect((await withoutKey(link)).status).toBe(200)
  })

  test('answers HEAD without a body, and other methods with 405', async () => {
    const response = await fetch(`${cloud.url}/`, { method: 'HEAD', headers: { accept: 'text/html' } })
    expect([response.status, response.headers.get('content-type'), await response.text()]).toEqual([200, 'text/html; charset=utf-8', ''])
    expect((await fetch(`${cloud.url}/`, { method: 'POST' })).status).toBe(405)
  })
})

describe('/metrics', () => {
  const figures = async () => (await cloud.fetch('/metrics')).text()

  test('needs a key', async () => {
    expect((await withoutKey('/metrics')).status).toBe(401)
  })

  test('is in the Prometheus text format: every line is a comment, a sample, or empty', async () => {
    const response = await cloud.fetch('/metrics')
    expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
    for (const line of (await response.text()).split('\n')) expect(line).toMatch(/^(#.*|[a-zA-Z_:][\w:]*(\{.*\})? [-+\deE.]+(Inf|NaN)?)?$/)
  })

  test('counts browsers by state', async () => {
    await until('a warm browser', WARM_MS, async () => (await figures()).includes('cob_browsers{state="warm"} 1'))
    const { session_id } = await cloud.create()
    expect(await figures()).toContain('cob_browsers{state="running"} 1')
    await cloud.fetch(`/browsers/${session_id}`, { method: 'DELETE' })
    expect(await figures()).not.toContain('cob_browsers{state="running"}')
  })

  test('counts creates that found a warm browser and those that waited, their waits, and boots', async () => {
    const figure = async (name: string) => Number(new RegExp(`^${name.replace(/[{}]/g, '\\$&')} (\\d+)`, 'm').exec(await figures())?.[1] ?? 0)
    const creates = async () => [
      await figure('cob_warm_pool_hits_total'),
      await figure('cob_warm_pool_misses_total'),
      await figure('cob_warm_pool_wait_seconds_count'),
    ]
    await until('a warm browser', WARM_MS, async () => (await figures()).includes('cob_browsers{state="warm"} 1'))
    const [hits, misses, waits] = (await creates()) as [number, number, number]
    const { session_id } = await cloud.create()
    expect(await creates()).toEqual([hits + 1, misses, waits + 1])
    await cloud.fetch(`/browsers/${session_id}`, { method: 'DELETE' })
    const figuresNow = await figures()
    for (const line of ['cob_warm_pool_waiting 0', 'cob_warm_pool_wanted{kind="usual"} 1', 'cob_boots_total{for="warm_pool"}'])
      expect(figuresNow).toContain(line)
  })

  test('measures requests by route, never by path: ids would create endless series', async () => {
    const { session_id } = await cloud.create()
    await cloud.fetch(`/browsers/${session_id}`)
    await cloud.fetch('/nothing/like/that')
    const text = await figures()
    expect(text).toMatch(/cob_http_request_duration_seconds_count\{route="getBrowser",status="2xx"\} \d+/)
    expect(text).not.toContain(session_id)
    expect(text).not.toContain('/nothing')
  })
})

describe('/openapi.json', () => {
  test('is an OpenAPI 3.1 document, without a key', async () => {
    const response = await withoutKey('/openapi.json')
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/json; charset=utf-8'])
    expect(((await response.json()) as { openapi: string }).openapi).toBe('3.1.0')
  })
})
