// The option `telemetry`: the effect of creates and updates, and how sessions show it.
import { describe, expect, test } from 'vitest'
import { fastCloud, type Session } from '../../../../test/support/fast-cloud.ts'
import { DEFAULT_CATEGORIES, type SettableCategory } from '../../../agent/telemetry/contract.ts'
import { merged, type GivenTelemetry } from './contract.ts'

const all = (...more: SettableCategory[]) => [...DEFAULT_CATEGORIES, ...more]
const on = (...names: string[]) => Object.fromEntries(names.map((name) => [name, { enabled: true }]))
const off = (...names: string[]) => Object.fromEntries(names.map((name) => [name, { enabled: false }]))
const given = (value: unknown) => value as GivenTelemetry

describe('a create', () => {
  test.each<[unknown, string[] | undefined]>([
    [undefined, undefined],
    [{}, undefined],
    [{ browser: {} }, undefined],
    [{ enabled: false }, undefined],
    [{ browser: off(...DEFAULT_CATEGORIES) }, undefined],
    [{ enabled: true, browser: off(...DEFAULT_CATEGORIES) }, undefined],
    [{ enabled: true }, all()],
    [{ enabled: true, browser: {} }, all()],
    [{ browser: { console: {} } }, all()],
    [{ browser: on('console') }, all('console')],
    [{ enabled: true, browser: on('network', 'page') }, all('network', 'page')],
    [{ browser: { ...off('control'), ...on('screenshot') } }, ['connection', 'system', 'captcha', 'screenshot']],
  ])('with %j captures %j', (option, categories) => {
    expect(merged(given(option))?.categories).toEqual(categories)
  })
})

describe('an update', () => {
  const before = { categories: all('console'), excluded_methods: ['Page.navigate' as const] }
  test.each<[unknown, unknown]>([
    [undefined, before],
    [{}, before],
    [{ enabled: false }, undefined],
    [{ enabled: true }, { categories: all() }],
    [{ enabled: true, browser: on('page') }, { categories: all('page') }],
    [{ browser: on('page') }, { categories: all('console', 'page'), excluded_methods: ['Page.navigate'] }],
    [{ browser: off('console') }, { categories: all(), excluded_methods: ['Page.navigate'] }],
    [{ browser: off(...all('console')) }, undefined],
    [{ browser: { control: { cdp: { excluded_methods: [] } } } }, { categories: all('console') }],
    [{ browser: { control: { cdp: { excluded_methods: ['Page.close', 'Page.close'] } } } }, { categories: all('console'), excluded_methods: ['Page.close'] }],
  ])('with %j of a session that captures the default set and console makes it %j', (option, after) => {
    expect(merged(given(option), before)).toEqual(after)
  })

  test('says whether a caller of a pool that stores nothing has its telemetry stored', () => {
    const ofPool = { categories: all(), destination: 'd', storage: false as const }
    const stored = (enabled: boolean | undefined) => merged(given({ enabled: true, storage: { enabled } }), ofPool)?.storage
    expect([stored(true), stored(false), stored(undefined)]).toEqual([undefined, false, false])
  })

  test('of a session that captures nothing begins with the default set', () => {
    expect(merged(given({ browser: on('console') }), undefined)).toEqual({ categories: all('console') })
  })
})

describe('over the API', () => {
  const cloud = fastCloud()
  const names = (session: Session) =>
    Object.entries((session as unknown as { telemetry: { browser: Record<string, { enabled: boolean }> } | null }).telemetry?.browser ?? {}).flatMap(
      ([name, { enabled }]) => (enabled ? [name] : []),
    )

  test('a session shows what it captures, category by category, and null when it captures nothing', async () => {
    const session = await cloud.create({ telemetry: { browser: on('network') } })
    expect(session).toMatchObject({
      telemetry: { browser: { control: { enabled: true }, network: { enabled: true }, console: { enabled: false } }, storage: { enabled: true } },
    })
    expect(await cloud.create()).toMatchObject({ telemetry: null })
    const again = (await (await cloud.fetch(`/browsers/${session.session_id}`)).json()) as Session
    expect(names(again)).toEqual(names(session))
  })

  test.each<[string, unknown]>([
    ['telemetry.enabled', { enabled: false, browser: { console: { enabled: false } } }],
    ['telemetry.enabled', { enabled: 'yes' }],
    ['telemetry.browser', { browser: on('monitor') }],
    ['telemetry.browser.console', { browser: { console: true } }],
    ['telemetry.browser.control.cdp.excluded_methods.0', { browser: { control: { cdp: { excluded_methods: ['Page.nonesuch'] } } } }],
    ['telemetry', { categories: ['console'] }],
  ])('%s is refused by name in %j, by creates and updates', async (field, telemetry) => {
    const session = await cloud.create()
    for (const answer of [await cloud.send('POST', '/browsers', { telemetry }), await cloud.send('PATCH', `/browsers/${session.session_id}`, { telemetry })]) {
      expect(answer.status).toBe(400)
      expect(JSON.stringify(await answer.json())).toContain(field)
    }
  })
})
