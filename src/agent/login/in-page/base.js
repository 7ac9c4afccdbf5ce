// What the scripts beside this one share. They run in a world of their own in each document: a page sees neither them nor their names (LOGIN is replaced by one that it
// cannot guess). A form, a document and a window can hide their own members by names of elements, so those are called from where they are defined.
;(() => {
  if (Object.hasOwn(globalThis, 'LOGIN')) return
  const reader = (of, name) => {
    const { get } = Object.getOwnPropertyDescriptor(of.prototype, name)
    return (thing) => get.call(thing)
  }
  const method = (of, name) => {
    const call = of.prototype[name]
    return (thing, ...given) => call.apply(thing, given)
  }
  const parentOf = reader(Node, 'parentNode')
  const tagName = reader(Element, 'tagName')
  const shadowOf = reader(Element, 'shadowRoot')
  const attribute = method(Element, 'getAttribute')
  const matches = method(Element, 'matches')
  const rectOf = method(Element, 'getBoundingClientRect')
  const isRendered = method(Element, 'checkVisibility')
  const rootOf = method(Node, 'getRootNode')
  const firstChild = reader(Node, 'firstChild')
  const nextSibling = reader(Node, 'nextSibling')
  const querySelector = method(Element, 'querySelector')
  const activeOf = { document: reader(Document, 'activeElement'), shadow: reader(ShadowRoot, 'activeElement') }
  const hitOf = { document: method(Document, 'elementFromPoint'), shadow: method(ShadowRoot, 'elementFromPoint') }
  const byId = { document: method(Document, 'getElementById'), shadow: method(DocumentFragment, 'getElementById') }

  const attr = (element, name) => attribute(element, name) ?? ''
  const tagOf = (element) => tagName(element).toLowerCase()
  const kindOf = (root) => (root instanceof ShadowRoot ? 'shadow' : 'document')
  const squeeze = (text) => text.replaceAll(/\s+/g, ' ').trim()
  const SILENT = new Set(['script', 'style', 'noscript', 'template', 'select', 'textarea', 'svg', 'iframe', 'object', 'head', 'title'])
  const MAX_PIECES = 400

  /** The closed shadow roots that the agent has found, by their elements. */
  const closed = new WeakMap()
  const rootIn = (element) => shadowOf(element) ?? closed.get(element) ?? null

  /** What is above a node, through shadow roots. */
  const above = (node) => parentOf(node) ?? (node instanceof ShadowRoot ? node.host : null)

  /** The text within an element that is rendered, with spaces joined, cut. */
  function textOf(element, most) {
    const pieces = []
    let [length, left] = [0, MAX_PIECES]
    const visit = (node, depth) => {
      if (left-- <= 0 || length > most || depth > 40) return
      if (node instanceof Text) {
        const text = node.data.slice(0, 2 * most)
        pieces.push(text)
        length += text.trim().length
        return
      }
      if (node instanceof Element) {
        if (SILENT.has(tagOf(node)) || (node !== element && !isRendered(node))) return
        pieces.push(' ')
        const root = rootIn(node)
        if (root) visitAll(root, depth)
      }
      visitAll(node, depth)
    }
    const visitAll = (node, depth) => {
      for (let child = firstChild(node); child && left > 0 && length <= most; child = nextSibling(child)) visit(child, depth + 1)
    }
    visit(element, 0)
    return squeeze(pieces.join('')).slice(0, most)
  }

  /** The elements that an attribute names by their ids. */
  const named = (element, name) => {
    const root = rootOf(element)
    const find = byId[kindOf(root)]
    if (!(root instanceof ShadowRoot) && !(root instanceof Document)) return []
    return attr(element, name)
      .slice(0, 500)
      .split(/\s+/)
      .filter(Boolean)
      .slice(0, 6)
      .map((id) => find(root, id))
      .filter((found) => found !== null)
  }

  const isCheckable = (element) => element instanceof HTMLInputElement && (element.type === 'checkbox' || element.type === 'radio')
  const labelsOf = (element) => ('labels' in element && element.labels ? [...element.labels].slice(0, 4) : [])

  /** How far an element is shown: not where it is clipped away by what is around it, transparent, or outside the page. */
  function isShown(element) {
    if (!isRendered(element, { opacityProperty: true, visibilityProperty: true })) return false
    let { left, top, right, bottom } = rectOf(element)
    if (right - left < 2 || bottom - top < 2) return false
    if (right + scrollX <= 0 || bottom + scrollY <= 0) return false
    let opacity = 1
    let depth = 0
    for (let node = element; node && depth < 60; node = above(node), depth++) {
      if (!(node instanceof Element)) continue
      const style = getComputedStyle(node)
      opacity *= Number(style.opacity)
      if (opacity < 0.1) return false
      if (/^rect\((?:0|1)px,? (?:0|1)px,? (?:0|1)px,? (?:0|1)px\)$/.test(style.clip) || /inset\((?:50|100)%\)|circle\(0/.test(style.clipPath)) return false
      if (style.position === 'fixed') break
      if (node === element || (style.overflowX !== 'hidden' && style.overflowX !== 'clip' && style.overflowY !== 'hidden' && style.overflowY !== 'clip'))
        continue
      if (node instanceof HTMLBodyElement || node instanceof HTMLHtmlElement) continue
      const around = rectOf(node)
      // What is hidden beyond an edge can be brought into view when there is something to scroll.
      if (around.width < 2 || around.height < 2) return false
      ;[left, top, right, bottom] = [Math.max(left, around.left), Math.max(top, around.top), Math.min(right, around.right), Math.min(bottom, around.bottom)]
      if ((right <= left && node.scrollWidth <= node.clientWidth) || (bottom <= top && node.scrollHeight <= node.clientHeight)) return false
    }
    return true
  }

  /** Where a person sees and clicks an element: a box that is drawn as its label is there. */
  const faceOf = (element) => (isCheckable(element) && !isShown(element) ? (labelsOf(element).find(isShown) ?? element) : element)

  /** The innermost element at a point, through shadow roots. */
  function hitAt(x, y) {
    let hit = hitOf.document(document, x, y)
    for (let depth = 0; hit && depth < 60; depth++) {
      const root = rootIn(hit)
      const inner = root && hitOf.shadow(root, x, y)
      if (!inner || inner === hit) return hit
      hit = inner
    }
    return hit
  }
  const contains = (outer, node) => {
    for (let at = node, depth = 0; at && depth < 500; at = above(at), depth++) if (at === outer) return true
    return false
  }
  /** Whether a click at this point is a click on the element. */
  function isReached(element, x, y) {
    const hit = hitAt(x, y)
    if (!hit) return false
    if (contains(element, hit)) return true
    return labelsOf(element).some((label) => contains(label, hit))
  }

  /** The element with the focus in this document, through shadow roots. */
  function focused() {
    let at = activeOf.document(document)
    for (let depth = 0; at && depth < 60; depth++) {
      const root = rootIn(at)
      const inner = root && activeOf.shadow(root)
      if (!inner) return at
      at = inner
    }
    return at
  }

  /** The `autocomplete` of fields as their page has it, of those where it was changed before something was typed. */
  const unremembered = new Map()
  const parts = {
    unremembered,
    autocompleteOf: (element) => unremembered.get(element) ?? parts.attr(element, 'autocomplete'),
    attr,
    tagOf,
    parentOf,
    above,
    rootIn,
    rootOf,
    rectOf,
    matches,
    isRendered,
    firstChild,
    nextSibling,
    querySelector,
    textOf,
    squeeze,
    named,
    isCheckable,
    labelsOf,
    isShown,
    faceOf,
    isReached,
    contains,
    focused,
    SILENT,
    closed,
    bodyOf: () => reader(Document, 'body')(document),
    htmlOf: () => reader(Document, 'documentElement')(document),
    titleOf: () => reader(Document, 'title')(document),
    readyState: () => reader(Document, 'readyState')(document),
    command: (name, value) => method(Document, 'execCommand')(document, name, false, value),
    baseOf: () => reader(Node, 'baseURI')(document),
  }
  Object.defineProperty(globalThis, 'LOGIN', { value: { parts } })
})()
