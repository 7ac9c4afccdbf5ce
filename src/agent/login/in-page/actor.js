// Acts on the elements of the last read. What is typed goes in here: the check where it goes and the typing are one step, in which no other document can have a say.
;(() => {
  const login = globalThis.LOGIN
  if (login.fill) return
  const p = login.parts
  const { get: ancestorsOf } =
    Object.getOwnPropertyDescriptor(Location.prototype, 'ancestorOrigins') ?? Object.getOwnPropertyDescriptor(location, 'ancestorOrigins')
  const TYPED = new Set(['text', 'password', 'email', 'tel', 'number', 'search', 'url'])

  const hostOf = (origin) => {
    try {
      return new URL(origin).hostname
    } catch {
      return '' // an opaque origin: a frame with a sandbox, a data: address
    }
  }
  const isAllowed = (host, allowed) =>
    host !== '' && allowed.some((one) => (one.startsWith('*.') ? host.endsWith(one.slice(1)) && host.length >= one.length : host === one))

  /** The first host that must get nothing: of this document, or of one of those around it. */
  login.refused = (hosts) => {
    const origins = [self.origin, ...ancestorsOf.call(location)]
    const wrong = origins.map(hostOf).find((host) => !isAllowed(host, hosts))
    return wrong === undefined ? null : wrong.slice(0, 253)
  }

  /** Whether a service worker may have made this document. */
  login.isByWorker = () => {
    try {
      const [entry] = performance.getEntriesByType('navigation')
      return Boolean(navigator.serviceWorker?.controller) || entry?.workerStart > 0
    } catch {
      return false // an opaque origin has none
    }
  }

  /** An element that is still where it was: in this document. */
  const there = (generation, index) => {
    const element = login.elementOf(generation, index)
    return element && element.isConnected && element.ownerDocument === document ? element : undefined
  }
  const isField = (element) =>
    (element instanceof HTMLInputElement && TYPED.has(element.type)) || element instanceof HTMLTextAreaElement || element.isContentEditable === true
  const isUsable = (element) => !('disabled' in element && p.matches(element, ':disabled')) && element.readOnly !== true

  const focus = (element) => {
    if (p.focused() !== element) element.focus({ preventScroll: true })
    return p.focused() === element
  }
  const lengthOf = (element) => ('value' in element ? element.value : (element.textContent ?? '')).length
  const select = (element) => {
    if ('select' in element) return element.select()
    const range = new Range()
    range.selectNodeContents(element)
    const selection = getSelection()
    selection.removeAllRanges()
    selection.addRange(range)
  }

  /** What is in the way of typing into an element now. */
  function obstacle(generation, index, hosts) {
    const refused = login.refused(hosts)
    if (refused !== null) return { problem: 'host', host: refused }
    const element = there(generation, index)
    if (!element) return { problem: 'gone' }
    if (!isField(element) || !isUsable(element)) return { problem: 'unusable' }
    // Handlers of the page run in here.
    if (!focus(element)) return { problem: login.refused(hosts) === null && there(generation, index) ? 'unusable' : 'gone' }
    return undefined
  }

  /**
   * Empties a field and types. The browser inserts at the selection of this document only: no other document can get it, wherever the focus goes. The page has had
   * its turn with the events of focus and of clearing before the last check, and nothing else runs between that and the insertion.
   */
  login.fill = (generation, index, value, hosts) => {
    const before = obstacle(generation, index, hosts)
    if (before) return { ...before, typed: false }
    const element = there(generation, index)
    unremember(element)
    if (lengthOf(element) > 0) {
      select(element)
      p.command('delete')
    }
    const after = obstacle(generation, index, hosts)
    if (after) return { ...after, typed: false }
    if (lengthOf(element) > 0) select(element)
    p.command('insertText', value)
    const still = there(generation, index)
    return still && lengthOf(still) === 0 ? { problem: 'unusable' } : { problem: null }
  }

  /** Chromium keeps what fields have in the history of a tab, which is saved with the profile. Not of those without autocompletion. */
  function unremember(element) {
    if (!(element instanceof HTMLInputElement) || p.unremembered.has(element)) return
    p.unremembered.set(element, p.attr(element, 'autocomplete'))
    element.setAttribute('autocomplete', 'off')
  }

  /** Whether a key that is pressed now goes to the element. */
  login.ready = (generation, index, hosts) => obstacle(generation, index, hosts) ?? { problem: null }
  /** For keys that are no values. */
  login.focus = (generation, index) => {
    const element = there(generation, index)
    if (!element) return { problem: 'gone' }
    return { problem: focus(element) ? null : 'unusable' }
  }

  /** Brings an element into view. */
  login.show = (generation, index) => {
    const element = there(generation, index)
    if (!element) return { problem: 'gone' }
    p.faceOf(element).scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' })
    return { problem: null }
  }
  /** A point at which a click reaches the element, in this document. */
  login.point = (generation, index) => {
    const element = there(generation, index)
    if (!element) return { problem: 'gone' }
    const face = p.faceOf(element)
    if (!p.isShown(face)) return { problem: 'unusable' }
    for (const { left, top, width, height } of [p.rectOf(face), ...[...face.getClientRects()].slice(0, 4)])
      for (const [across, down] of [
        [0.5, 0.5],
        [0.25, 0.5],
        [0.75, 0.5],
        [0.5, 0.25],
        [0.5, 0.75],
        [0.1, 0.5],
      ]) {
        const [x, y] = [left + width * across, top + height * down]
        if (x < 0 || y < 0 || x >= innerWidth || y >= innerHeight) continue
        if (p.isReached(element, x, y) || p.isReached(face, x, y)) return { problem: null, x, y }
      }
    return { problem: 'covered' }
  }
  login.isChecked = (generation, index) => {
    const element = there(generation, index)
    if (!element) return { problem: 'gone' }
    return { problem: null, checked: p.isCheckable(element) ? element.checked : p.attr(element, 'aria-checked') === 'true' }
  }
  /** By a script: keys would choose each option on the way, and a page that acts on a change would act on the first. */
  login.choose = (generation, index, option) => {
    const element = there(generation, index)
    if (!element) return { problem: 'gone' }
    if (!(element instanceof HTMLSelectElement) || !isUsable(element) || option >= element.options.length || element.options[option].disabled)
      return { problem: 'unusable' }
    focus(element)
    if (element.selectedIndex === option) return { problem: null }
    element.selectedIndex = option
    element.dispatchEvent(new Event('input', { bubbles: true, composed: true }))
    element.dispatchEvent(new Event('change', { bubbles: true }))
    return { problem: null }
  }
  const masked = new Set()
  /** Masks a field within a shadow root, where the sheet of the document does not reach. */
  login.mask = (generation, index) => {
    const element = there(generation, index)
    if (!element || !(p.rootOf(element) instanceof ShadowRoot)) return
    element.style.setProperty('-webkit-text-security', 'disc', 'important')
    masked.add(element)
  }
  /** Undoes what was changed in this document. */
  login.leave = () => {
    EventTarget.prototype.dispatchEvent.call(document, new Event('EVENTEnd'))
    for (const element of masked) element.style.removeProperty('-webkit-text-security')
    masked.clear()
    for (const [element, before] of p.unremembered) {
      if (before === '') element.removeAttribute('autocomplete')
      else element.setAttribute('autocomplete', before)
    }
    p.unremembered.clear()
  }
})()
