// The pages for recordings and live views: one changes in every frame, and one changes its colour on a press.

/** A static text, and in one third of the screen a rotating picture and a running clock. */
export const MOVING = `<!doctype html><title>moving</title><link rel="icon" href="data:,">
<style>
  body { margin: 0; height: 100vh; overflow: hidden; display: grid; grid-template-columns: 1fr 1fr; font: 18px/1.5 "Liberation Sans", sans-serif }
  p { margin: 20px 32px }
  #clock { font: 700 64px monospace; margin: 24px }
  #wheel { width: 640px; height: 640px; border-radius: 50%; background: conic-gradient(#4f46e5, #db2777, #f59e0b, #22c55e, #4f46e5) }
</style>
<main>${'<p>What stands here stays as it is, and what is beside it does not: so it is on most pages on which something moves.</p>'.repeat(14)}</main>
<section><div id="clock"></div><div id="wheel"></div></section>
<script>
  const [clock, wheel] = ['clock', 'wheel'].map((id) => document.getElementById(id))
  const show = (now) => {
    clock.textContent = (now / 1000).toFixed(3)
    wheel.style.transform = 'rotate(' + now / 10 + 'deg)'
    requestAnimationFrame(show)
  }
  requestAnimationFrame(show)
</script>`

/** The page's colours: the first before any press, then the others in turn. */
const COLOURS = [0xd02020, 0x20a040, 0x2040d0]

export const paintedAfter = (presses: number): number => COLOURS[presses % COLOURS.length]!

export const PAINT = `<!doctype html><title>paint</title><link rel="icon" href="data:,">
<style>html { height: 100% }</style>
<script>
  const colours = ${JSON.stringify(COLOURS.map((colour) => `#${colour.toString(16)}`))}
  let presses = 0
  const paint = () => (document.documentElement.style.background = colours[presses++ % colours.length])
  paint()
  addEventListener('pointerdown', paint)
</script>`
