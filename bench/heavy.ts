// A heavy page: requests, console lines, and a layout that changes.

/** The number of requests, and the number of console lines. */
export const HEAVY_REQUESTS = 500
const LINES = 1000

/** An answer of about 2 KB. */
export const DATA = JSON.stringify({ items: Array.from({ length: 40 }, (_, id) => ({ id, name: `item ${id}`, price: id * 1.5, tags: ['a', 'b'] })) })

/** The page sets `window.done` to true when its work is complete. */
export const HEAVY = `<!doctype html><title>heavy</title><link rel="icon" href="data:,"><ul id="list"></ul>
<script>
  const list = document.getElementById('list')
  const one = async (n) => {
    const { items } = await (await fetch('/data?n=' + n)).json()
    for (const item of items) list.append(Object.assign(document.createElement('li'), { textContent: item.name + ': ' + item.price }))
    if (list.childElementCount > 2000) list.replaceChildren()
    for (let line = 0; line < ${LINES / HEAVY_REQUESTS}; line++) console.log('request', n, 'has', items.length, 'items')
    return list.offsetHeight
  }
  const work = async () => {
    for (let n = 0; n < ${HEAVY_REQUESTS}; n += 10) await Promise.all(Array.from({ length: 10 }, (_, at) => one(n + at)))
    window.done = true
  }
  work()
</script>`
