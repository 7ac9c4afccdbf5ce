// The list of events on pages for people: only what is in view is in the document, so a hundred thousand lines scroll like ten. What events say is hostile:
// it is only ever set as text.

/** What can be shown and hidden, in the order of the buttons. */
export const KINDS = {
  console: ['Console', ['console']],
  network: ['Network', ['network']],
  page: ['Pages', ['page']],
  input: ['Input', ['interaction']],
  api: ['API calls', ['control', 'platform']],
  clients: ['Clients', ['connection']],
  system: ['System', ['system', 'monitor', 'captcha']],
  shots: ['Screenshots', ['screenshot']],
}
const KIND_OF = Object.fromEntries(Object.entries(KINDS).flatMap(([kind, [, categories]]) => categories.map((category) => [category, kind])))

/** A crash of a page is listed with those of other programs. */
export const kindOf = ({ type, category }) => (type === 'page_crashed' ? 'system' : (KIND_OF[category] ?? 'system'))

/** Lines above and below the view that are in the document, too. */
const MARGIN = 6
/** After so long without a key the search begins. */
const SEARCH_MS = 120

/** An element with attributes and content. Content is text or elements; nothing is ever read as HTML. */
export function make(tag, attributes = {}, ...content) {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) element.setAttribute(name, value)
  element.append(...content)
  return element
}

/** Where the first line after the time is: lines are in the order of their times. */
function after(lines, ts) {
  let [low, high] = [0, lines.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (lines[middle].ts > ts) high = middle
    else low = middle + 1
  }
  return low
}

/**
 * Fills `root` with a list. `when(line)` is the text of its time, `details(line)` resolves with what is shown when it is opened. `jump(line)` goes to its moment;
 * without it a click on a line opens it. `changed(lines)` gets the lines that the filters leave. `max`: older ones are dropped. `isLive`: the newest line is the
 * present one.
 */
export function eventList(root, { when, details, jump, changed = () => {}, max = Infinity, isLive = false }) {
  const all = []
  /** Those that the filters leave. */
  let lines = []
  const hiddenKinds = new Set()
  const counts = Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, 0]))
  let words = []
  /** Elements of the lines in the document, by their place in `lines`. */
  const rows = new Map()
  let current = -1
  /** The line that Tab reaches. */
  let active = 0
  let opened
  let isFollowing = true
  let isDrawn = true
  let searchTimer

  const search = make('input', {
    type: 'search',
    class: 'ev-search',
    placeholder: 'Search',
    'aria-label': 'Search events',
    autocomplete: 'off',
    spellcheck: 'false',
  })
  const kinds = make('div', { class: 'ev-kinds', role: 'group', 'aria-label': 'Kinds of events' })
  const chips = Object.fromEntries(
    Object.entries(KINDS).map(([kind, [name]]) => {
      const count = make('span', { class: 'ev-count' })
      const chip = make(
        'button',
        { type: 'button', class: 'ev-kind', 'data-kind': kind, 'aria-pressed': 'true' },
        make('span', { class: 'ev-dot' }),
        name,
        count,
      )
      chip.hidden = true
      chip.onclick = () => {
        const isHidden = hiddenKinds.delete(kind) ? false : (hiddenKinds.add(kind), true)
        chip.setAttribute('aria-pressed', String(!isHidden))
        filter()
      }
      kinds.append(chip)
      return [kind, { chip, count }]
    }),
  )
  // Nobody wants to hear a number that changes all the time.
  const status = make('p', { class: 'ev-status', role: isLive ? undefined : 'status' })
  const list = make('ol', { class: 'ev-list', role: 'list' })
  const view = make('div', { class: 'ev-view' }, list)
  const follow = make('button', { type: 'button', class: 'ev-follow' }, isLive ? 'Newest' : 'Follow the video')
  follow.hidden = true
  const title = make('h2', { class: 'ev-title', tabindex: '-1' })
  const close = make('button', { type: 'button', class: 'ev-close', 'aria-label': 'Close the details' }, '×')
  const content = make('div', { class: 'ev-content', tabindex: '0', role: 'group', 'aria-label': 'Details' })
  const panel = make('section', { class: 'ev-details', 'aria-label': 'Details of an event' }, make('div', { class: 'ev-head' }, title, close), content)
  panel.hidden = true
  root.append(make('div', { class: 'ev-tools' }, search, kinds), status, make('div', { class: 'ev-body' }, view, follow), panel)

  const height = () => Number.parseFloat(getComputedStyle(root).getPropertyValue('--ev-row')) || 36
  const isShown = (line) => !hiddenKinds.has(kindOf(line)) && words.every((word) => line.search.includes(word))

  function say(text, ...more) {
    status.replaceChildren(text, ...more)
  }
  let skipped = 0
  function told() {
    if (all.length === 0) return 'No events yet'
    const count = lines.length === all.length ? `${all.length} events` : `${lines.length} of ${all.length} events`
    return skipped === 0 ? count : `${count}; ${skipped} more came too fast to be listed`
  }

  function rowOf(at) {
    const line = lines[at]
    const kind = kindOf(line)
    const main = make(
      'button',
      { type: 'button', class: 'ev-line', tabindex: at === active ? '0' : '-1', title: line.text },
      make('span', { class: 'ev-when' }, when(line)),
      make('span', { class: 'ev-dot' }),
      make('span', { class: 'ev-hidden' }, `${KINDS[kind][0]}${line.tone === 'bad' ? ', failed' : ''}: `),
      make('span', { class: 'ev-text', dir: 'auto' }, line.text),
      ...(line.note ? [make('span', { class: 'ev-note', dir: 'auto' }, line.note)] : []),
    )
    const row = make('li', { class: 'ev-row', 'data-kind': kind, 'data-tone': line.tone, 'aria-setsize': lines.length, 'aria-posinset': at + 1 }, main)
    if (jump) row.append(make('button', { type: 'button', class: 'ev-open', tabindex: at === active ? '0' : '-1', 'aria-label': 'Details' }, '›'))
    row.line = line
    row.at = at
    return row
  }

  function draw() {
    isDrawn = true
    if (root.hidden) return
    const row = height()
    const first = Math.max(0, Math.floor(view.scrollTop / row) - MARGIN)
    const last = Math.min(lines.length, Math.ceil((view.scrollTop + view.clientHeight) / row) + MARGIN)
    const wanted = new Set()
    for (let at = first; at < last; at++) wanted.add(at)
    // Whoever is at a line with the keyboard stays there when it is scrolled away; and Tab always finds one.
    if (active < lines.length) wanted.add(active)
    for (const [at, element] of rows)
      if (!wanted.has(at) || element.line !== lines[at]) {
        element.remove()
        rows.delete(at)
      }
    for (const at of [...wanted].sort((one, other) => one - other)) {
      let element = rows.get(at)
      if (!element) {
        element = rowOf(at)
        rows.set(at, element)
        // In the order of the list, for those who hear it.
        const next = [...list.children].find((other) => other.at > at)
        list.insertBefore(element, next ?? null)
      }
      element.style.transform = `translateY(${at * row}px)`
      if (at === current) element.setAttribute('aria-current', 'true')
      else element.removeAttribute('aria-current')
      element.classList.toggle('ev-opened', element.line === opened)
      for (const button of element.children) button.tabIndex = at === active ? 0 : -1
    }
  }
  const redraw = () => {
    if (!isDrawn) return
    isDrawn = false
    requestAnimationFrame(draw)
  }

  function show(at, isCentred) {
    if (at < 0) return
    const row = height()
    const [top, inView] = [at * row, view.clientHeight]
    if (isCentred) view.scrollTop = top - inView / 2 + row / 2
    else if (top < view.scrollTop) view.scrollTop = top
    else if (top + row > view.scrollTop + inView) view.scrollTop = top + row - inView
    redraw()
  }
  function followNow() {
    // Before it is scrolled: it cannot be further than it is long.
    list.style.height = `${lines.length * height()}px`
    if (!isFollowing || lines.length === 0) return
    if (isLive) view.scrollTop = lines.length * height()
    else show(Math.max(0, current), true)
  }
  function setFollowing(on) {
    isFollowing = on
    follow.hidden = on
    if (on) followNow()
  }

  function filter() {
    lines = all.filter(isShown)
    for (const element of rows.values()) element.remove()
    rows.clear()
    list.replaceChildren()
    active = Math.max(0, Math.min(active, lines.length - 1))
    place()
    say(told())
    followNow()
    redraw()
    changed(lines)
  }
  let now = -Infinity
  function place() {
    current = isLive ? -1 : after(lines, now) - 1
  }

  async function open(line) {
    opened = line
    panel.hidden = false
    // There is less room for the list now, and the line should stay in view while somebody reads.
    if (lines[current] !== line) setFollowing(false)
    requestAnimationFrame(() => opened === line && show(lines.indexOf(line)))
    title.textContent = line.text
    content.replaceChildren(make('p', {}, 'Loading…'))
    redraw()
    let found
    try {
      found = await details(line)
    } catch {
      found = undefined
    }
    if (opened !== line) return
    content.replaceChildren(...(found ? shownDetails(found) : [make('p', {}, 'The details could not be loaded.')]))
    content.scrollTop = 0
    show(lines.indexOf(line))
  }
  function shut() {
    panel.hidden = true
    opened = undefined
    redraw()
    focus(active)
  }
  function focus(at, selector = '.ev-line') {
    if (lines.length === 0) return
    active = Math.max(0, Math.min(at, lines.length - 1))
    show(active)
    draw()
    rows.get(active)?.querySelector(selector)?.focus({ preventScroll: true })
  }

  list.addEventListener('click', (event) => {
    const row = event.target.closest('.ev-row')
    const button = event.target.closest('button')
    if (!row || !button) return
    active = row.at
    if (jump && button.classList.contains('ev-line')) {
      setFollowing(true)
      jump(row.line)
      if (!panel.hidden) void open(row.line)
    } else if (opened === row.line) shut()
    else void open(row.line)
    redraw()
  })
  const page = () => Math.max(1, Math.floor(view.clientHeight / height()) - 1)
  const KEYS = {
    ArrowDown: () => active + 1,
    ArrowUp: () => active - 1,
    PageDown: () => active + page(),
    PageUp: () => active - page(),
    Home: () => 0,
    End: () => lines.length - 1,
  }
  list.addEventListener('keydown', (event) => {
    const to = KEYS[event.key]?.()
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return
    event.preventDefault()
    event.stopPropagation()
    setFollowing(false)
    focus(to, document.activeElement.classList.contains('ev-open') ? '.ev-open' : '.ev-line')
  })
  root.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || panel.hidden) return
    event.stopPropagation()
    event.preventDefault()
    shut()
  })
  close.onclick = shut
  follow.onclick = () => setFollowing(true)
  view.addEventListener('scroll', () => {
    redraw()
    // At its end again, the list of a session goes on with it.
    if (isLive && !isFollowing && view.scrollTop + view.clientHeight >= lines.length * height() - 2) setFollowing(true)
  })
  // A person's own scrolling. The bar of the list is the one thing in it that is not in a line.
  for (const name of ['wheel', 'touchmove'])
    view.addEventListener(name, () => lines.length * height() > view.clientHeight && setFollowing(false), { passive: true })
  view.addEventListener('pointerdown', (event) => event.target === view && setFollowing(false))
  search.addEventListener('input', () => {
    clearTimeout(searchTimer)
    searchTimer = setTimeout(() => {
      words = search.value.toLowerCase().split(/\s+/).filter(Boolean)
      filter()
    }, SEARCH_MS)
  })
  new ResizeObserver(() => (followNow(), redraw())).observe(view)
  say(told())

  return {
    /** Adds lines, the oldest first. */
    add(more) {
      for (const line of more) {
        line.search = `${line.text}\n${line.note ?? ''}\n${line.type}`.toLowerCase()
        all.push(line)
        counts[kindOf(line)]++
        if (isShown(line)) lines.push(line)
      }
      for (const [kind, { chip, count }] of Object.entries(chips)) {
        chip.hidden = counts[kind] === 0
        count.textContent = String(counts[kind])
      }
      if (all.length > max) {
        // A tenth at once: each time the list is drawn anew.
        for (const line of all.splice(0, all.length - Math.floor(max * 0.9))) counts[kindOf(line)]--
        filter()
        return
      }
      for (const element of rows.values()) element.setAttribute('aria-setsize', lines.length)
      place()
      say(told())
      followNow()
      redraw()
      changed(lines)
    },
    /** So many events are not going to be added. */
    skip(count) {
      skipped += count
      say(told())
    },
    /** The present moment, in the time of the lines. */
    moveTo(ts) {
      now = ts
      const before = current
      place()
      if (current === before) return
      followNow()
      redraw()
    },
    /** What the line above the list says: a text, or a function that makes one from nothing; and a button, if any. */
    say(text, button) {
      if (text === undefined) say(told())
      else say(text, ...(button ? [' ', button] : []))
    },
    /** After it was hidden. */
    shown() {
      followNow()
      redraw()
    },
    get length() {
      return all.length
    },
  }
}

/** The details of an event: facts, then longer texts. */
function shownDetails({ facts, blocks, png, isBrief }) {
  const parts = [make('dl', {}, ...facts.flatMap(([name, value]) => [make('dt', {}, name.replaceAll('_', ' ')), make('dd', { dir: 'auto' }, value)]))]
  for (const [name, text] of blocks) parts.push(make('h3', {}, name), make('pre', { dir: 'auto' }, text))
  if (png) parts.push(make('img', { src: `data:image/png;base64,${png}`, alt: 'The screen at this moment' }))
  if (isBrief) parts.push(make('p', { class: 'ev-brief' }, 'This link shows no headers, bodies, typed text or values in addresses.'))
  return parts
}
