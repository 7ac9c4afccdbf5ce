// The clipboard through the published SDK: callers and pages share it.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { until } from '../../src/base/wait.ts'
import { openInFront, sitDown, TAKE_MS, type Seat } from '../support/desk.ts'
import { runInside } from '../support/inside.ts'
import { where } from '../support/session.ts'

/** Texts of this length are sent in parts. */
const MIB = 1024 * 1024

let seat: Seat
let cloud: Seat['cloud']
let pages: Seat['pages']
let computer: Seat['computer']
let session: Seat['session']
let id: string
beforeAll(async () => {
  seat = await sitDown()
  ;({ cloud, pages, computer, session, id } = seat)
})
afterAll(() => seat[Symbol.asyncDispose]())

const write = (text: string, of = id) => computer.writeClipboard(of, { text })
const read = async (of = id): Promise<string> => (await computer.readClipboard(of)).text
const press = (...keys: string[]) => computer.pressKey(id, { keys })
const content = (field: string): Promise<string> => session.page.evaluate(`content('${field}')`)
/** Fills a field and focuses it. */
const fill = (text: string, field = 'text') =>
  session.page.evaluate(
    ([name, value]) => {
      const page = globalThis as unknown as { begin(name: string): void; document: { execCommand(...args: unknown[]): void } & Record<string, unknown> }
      page.begin(name!)
      if (value) page.document.execCommand('insertText', false, value)
    },
    [field, text],
  )
const open = (url: string) => openInFront(session.page, url)
async function becomes(field: string, text: string): Promise<void> {
  await until('the text', TAKE_MS, async () => (await content(field)) === text).catch(() => {})
  expect(await content(field)).toBe(text)
}
const kinds = {
  words: 'some words',
  'lines and tabs': 'one\n\ttwo\n\n three ',
  'many scripts': 'ä ß Ж Ω ש ع 漢 한 e\u0301 \u00A0 \u200D',
  emoji: '😀 👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 𝒜',
  markup: '<b>not bold</b> &amp; "quotes" \\u0041',
}

test('an empty clipboard reads as an empty text', async () => {
  expect(await read()).toBe('')
})

describe('the clipboard between a caller and a page', () => {
  beforeAll(() => open(pages.url('writing.html')))

  test.each(Object.entries(kinds))('returns %s that was written, and ctrl+v pastes it', async (_kind, text) => {
    await write(text)
    expect(await read()).toBe(text)
    await fill('')
    await press('ctrl+v')
    await becomes('text', text)
    expect(await read()).toBe(text)
  })

  test.each(Object.entries(kinds))('returns %s immediately after ctrl+c', async (_kind, text) => {
    await write('before')
    await fill(text)
    await press('ctrl+a', 'ctrl+c')
    expect(await read()).toBe(text)
    expect(await content('text')).toBe(text)
  })

  test('returns text immediately after ctrl+x, and the page has lost it', async () => {
    await fill('cut away')
    await press('ctrl+a', 'ctrl+x')
    expect(await read()).toBe('cut away')
    await becomes('text', '')
  })

  test('returns a copy immediately every time, ten times in a row', async () => {
    for (let count = 0; count < 10; count++) {
      await fill(`copy ${count}`)
      await press('ctrl+a', 'ctrl+c')
      expect(await read()).toBe(`copy ${count}`)
    }
  })

  test('has the last text written: caller, page, caller, page', async () => {
    for (const round of ['one', 'two']) {
      await write(`caller ${round}`)
      expect(await read()).toBe(`caller ${round}`)
      await fill(`page ${round}`)
      await press('ctrl+a', 'ctrl+c')
      expect(await read()).toBe(`page ${round}`)
    }
    await write('first')
    await write('second')
    await fill('')
    await press('ctrl+v', 'ctrl+v')
    await becomes('text', 'secondsecond')
  })

  test('is empty after an empty text is written', async () => {
    await write('something')
    await write('')
    expect(await read()).toBe('')
    await fill('kept')
    await press('ctrl+v')
    await becomes('text', 'kept')
  })

  test('does not change when text is only selected', async () => {
    await write('stays')
    await fill('selected')
    await press('ctrl+a')
    expect(await read()).toBe('stays')
  })

  test('returns formatted text without its format', async () => {
    await session.page.evaluate('begin("rich"); rich.innerHTML = "<b>bold</b> and <i>slanted</i>"')
    await press('ctrl+a', 'ctrl+c')
    expect(await read()).toBe('bold and slanted')
  })

  test.each([
    ['a MiB of ASCII', () => 'abcdefghijklmno\n'.repeat(MIB / 16)],
    ['a MiB of many scripts', () => 'ä Ω 漢字 😀 \n'.repeat(MIB / 20)],
    ['a little more than one part', () => 'x'.repeat(128 * 1024 + 1)],
    ['exactly two parts', () => 'y'.repeat(256 * 1024)],
  ])('passes %s complete in both directions', async (_what, make) => {
    const text = make()
    await write(text)
    expect((await read()) === text).toBe(true)
    await fill('')
    await press('ctrl+v')
    await until('the long text', TAKE_MS, async () => (await content('text')).length >= text.length, { everyMs: 100 })
    expect((await content('text')) === text).toBe(true)
    await write('')
    await press('ctrl+a', 'ctrl+c')
    await until('the long copy', TAKE_MS, async () => (await read()) !== '', { everyMs: 100 })
    expect((await read()) === text).toBe(true)
  })

  test('stays the same after a navigation, whoever wrote it', async () => {
    for (const copy of [() => write('by a caller'), () => press('ctrl+a', 'ctrl+c')]) {
      await fill('by a page')
      await copy()
      const text = await read()
      expect(text).toMatch(/^by a /)
      await open(pages.url('elsewhere'))
      expect(await read()).toBe(text)
      await open(pages.url('writing.html'))
      await fill('')
      await press('ctrl+v')
      await becomes('text', text)
    }
  })
})

describe('pages that copy by themselves', () => {
  const click = async (button: string) => {
    const before = (await session.page.evaluate('copied.length')) as number
    await computer.clickMouse(id, await where(session.page, `#${button}`))
    return async () => {
      await until('the page to have copied', TAKE_MS, async () => ((await session.page.evaluate('copied.length')) as number) > before)
      expect(await session.page.evaluate('copied.at(-1)')).toBe(button)
    }
  }
  beforeEach(() => write('before'))

  test('on a click: the text can be read immediately after the click', async () => {
    await open(pages.url('copying.html'))
    await click('old')
    expect(await read()).toBe('from the page: ü漢😀')
  })

  test('without text: it reads as empty, without an error', async () => {
    const copied = await click('html')
    await copied()
    expect(await read()).toBe('')
  })

  test('with the asynchronous API: text can be read, and an image reads as no text', async () => {
    const file = readFileSync(join(PACKAGE_DIR, 'test/pages/copying.html'), 'base64')
    expect(await runInside(cloud, id, `echo ${file} | base64 -d > /home/kernel/copying.html`)).toMatchObject({ code: 0 })
    await open('file:///home/kernel/copying.html')
    await (
      await click('text')
    )()
    expect(await read()).toBe('from a secure page')
    await (
      await click('picture')
    )()
    expect(await read()).toBe('')
    await write('after')
    expect(await read()).toBe('after')
  })
})

test('sessions do not share their clipboard', async () => {
  const other = await cloud.client.browsers.create({ timeout_seconds: 300 })
  expect(await read(other.session_id)).toBe('')
  await Promise.all([write('mine'), write('theirs', other.session_id)])
  expect(await Promise.all([read(), read(other.session_id)])).toEqual(['mine', 'theirs'])
  await cloud.client.browsers.deleteByID(other.session_id)
  expect(await read()).toBe('mine')
})

test('concurrent callers read only complete texts that were written', async () => {
  const texts = Array.from({ length: 8 }, (_, index) => `${index}`.repeat(10_000))
  const reads = await Promise.all(texts.map(async (text) => (await write(text), read())))
  for (const found of reads) expect(texts.includes(found)).toBe(true)
  expect(texts.includes(await read())).toBe(true)
})
