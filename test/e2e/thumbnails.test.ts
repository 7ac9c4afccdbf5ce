// Thumbnails of sessions: at most a second old, for any number of viewers. Reading one is no use of the session.
import sharp from 'sharp'
import { expect, test } from 'vitest'
import { sleep, until } from '../../src/base/wait.ts'
import { forTests } from '../support/for-tests.ts'
import { openSession } from '../support/session.ts'
import { shareCloud } from '../support/shared-cloud.ts'
import { asleep, isAsleep } from '../support/standby.ts'

const SEEN_MS = 10_000
const SECOND_MS = 1_000

const cloud = forTests(() => shareCloud({ COB_STANDBY_AFTER_SECONDS: '2', COB_STANDBY_CONNECTED_AFTER_SECONDS: '2' }))

const get = (id: string, known?: string) =>
  fetch(`${cloud.url}/browsers/${id}/thumbnail`, { headers: { authorization: `Bearer ${cloud.key}`, ...(known && { 'if-none-match': known }) } })

async function picture(id: string) {
  const response = await get(id)
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'image/png'])
  const { data, info } = await sharp(Buffer.from(await response.arrayBuffer()))
    .removeAlpha()
    .raw()
    .toBuffer({ resolveWithObject: true })
  const at = (x: number, y: number) => [...data.subarray((y * info.width + x) * 3, (y * info.width + x) * 3 + 3)]
  return { width: info.width, height: info.height, at, etag: response.headers.get('etag')! }
}

test('the picture is the screen, made small; it follows the page, and an unchanged one is not sent again', async () => {
  await using session = await openSession(cloud, { headless: true, viewport: { width: 1280, height: 800 } })
  const { id, page } = session
  await page.setContent('<body style="margin:0;background:linear-gradient(90deg,rgb(200,40,10) 50%,rgb(10,60,220) 50%)">')
  const near = (colour: number[], wanted: number[]) => colour.every((value, index) => Math.abs(value - wanted[index]!) <= 2)
  const shown = await until('the page', SEEN_MS, async () => ((now) => near(now.at(20, 100), [200, 40, 10]) && now)(await picture(id)), { everyMs: 200 })
  expect([shown.width, shown.height, near(shown.at(300, 100), [10, 60, 220])]).toEqual([320, 200, true])
  await sleep(SECOND_MS)
  const { etag } = await picture(id)
  await sleep(SECOND_MS)
  expect((await get(id, etag)).status).toBe(304)
  await page.evaluate('document.body.style.background = "rgb(0,128,0)"')
  await until('the change', SEEN_MS, async () => near((await picture(id)).at(20, 100), [0, 128, 0]), { everyMs: 200 })
})

test('a session sleeps, and is not woken, while its pictures are looked at', async () => {
  await using session = await openSession(cloud, { headless: true })
  const { id, page } = session
  await page.setContent('<body style="background:rgb(1,2,3)">')
  const looks = setInterval(() => void get(id).then((response) => response.arrayBuffer()), 200)
  try {
    await asleep(cloud, id)
    await sleep(2 * SECOND_MS)
    expect(isAsleep(cloud, id)).toBe(true)
    const before = performance.now()
    expect((await get(id)).status).toBe(200)
    expect(performance.now() - before).toBeLessThan(SECOND_MS)
    expect(isAsleep(cloud, id)).toBe(true)
  } finally {
    clearInterval(looks)
  }
})
