// The pages: a small one, one that fills the screen with content for large screenshots, one for typing, and those of moving.ts and heavy.ts. The first three are static
// after they have been drawn.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { FIELD } from './field.ts'
import { DATA, HEAVY } from './heavy.ts'
import { MOVING, PAINT } from './moving.ts'

type Name = 'small' | 'rich' | 'field' | 'moving' | 'paint' | 'heavy'

export interface Pages extends AsyncDisposable {
  /** The address for a session; below it, the address for programs of this machine. */
  inside(name: Name): string
  local(name: Name): string
}

const SMALL = '<!doctype html><title>small</title><link rel="icon" href="data:,"><h1>A small page</h1><p>Nothing moves here.</p>'

const WORDS = 'the browser opens a page and an agent reads what stands there before it decides where to click next while the screen keeps still'.split(' ')
const column = (at: number): string =>
  Array.from(
    { length: 9 },
    (_, paragraph) => `<p>${Array.from({ length: 42 }, (_word, index) => WORDS[(index * (at + 3) + paragraph * 7) % WORDS.length]).join(' ')}.</p>`,
  ).join('')

// A generator with a fixed seed draws the pictures, so that they are the same in every browser: soft shapes with fine grain, like photographs.
const RICH = `<!doctype html><title>rich</title><link rel="icon" href="data:,">
<style>
  body { margin: 0; height: 100vh; overflow: hidden; font: 15px/1.45 "Liberation Sans", sans-serif; background: linear-gradient(135deg, #fdf2f8, #e0f2fe 60%, #ecfccb) }
  h1 { margin: 0; padding: 18px 32px; font-size: 38px; color: white; background: linear-gradient(90deg, #4f46e5, #db2777 50%, #f59e0b) }
  main { display: grid; grid-template-columns: repeat(4, 1fr); gap: 20px; padding: 20px 32px }
  canvas { width: 100%; height: 250px; border-radius: 14px; box-shadow: 0 8px 24px #0004 }
  .card { height: 120px; border-radius: 14px; background: radial-gradient(circle at 30% 20%, #fde68a, #f472b6 45%, #6366f1) }
  p { margin: 0 0 8px }
</style>
<h1>A page with much on it</h1>
<main>${Array.from({ length: 4 }, (_, at) => `<section><canvas width="440" height="250"></canvas><div class="card"></div>${column(at)}</section>`).join('')}</main>
<script>
  let seed = 7
  const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647
  for (const canvas of document.querySelectorAll('canvas')) {
    const draw = canvas.getContext('2d')
    for (let i = 0; i < 60; i++) {
      const [x, y, r] = [random() * 440, random() * 250, 20 + random() * 110]
      const shade = draw.createRadialGradient(x, y, 0, x, y, r)
      shade.addColorStop(0, 'hsla(' + random() * 360 + ',70%,55%,0.7)')
      shade.addColorStop(1, 'transparent')
      draw.fillStyle = shade
      draw.fillRect(0, 0, 440, 250)
    }
    const picture = draw.getImageData(0, 0, 440, 250)
    for (let i = 0; i < picture.data.length; i += 4) {
      const grain = (random() - 0.5) * 24
      for (let c = 0; c < 3; c++) picture.data[i + c] += grain
      picture.data[i + 3] = 255
    }
    draw.putImageData(picture, 0, 0)
  }
</script>`

const PAGES: Record<Name, string> = { small: SMALL, rich: RICH, field: FIELD, moving: MOVING, paint: PAINT, heavy: HEAVY }

export async function servePages(): Promise<Pages> {
  const server = createServer((request, response) => {
    if (request.url?.startsWith('/data')) return void response.setHeader('content-type', 'application/json').end(DATA)
    response.setHeader('content-type', 'text/html; charset=utf-8').end(PAGES[request.url?.slice(1) as Name] ?? SMALL)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    inside: (name) => `http://host.cob.internal:${port}/${name}`,
    local: (name) => `http://127.0.0.1:${port}/${name}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
