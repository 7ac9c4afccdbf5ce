// Tells the agent of clicks, keys and scrolling. Events that a page has made itself are left out, and everything about password-like fields.
;(() => {
  const parts = globalThis.BINDINGParts
  if (parts.ends.interaction) return
  const { attr, fieldOf, hasKnown, isSecretField, isSecretTarget, namesSecret, parentOf, seeRoots, tagOf } = parts.passwordLike
  const MAX_TEXT = 200
  /** More is told, and judged: the agent cuts it when it has taken secrets out, so that no part of one is left at the end. */
  const MAX_TOLD = MAX_TEXT + 256
  const MAX_SELECTOR = 512 + 256
  const MAX_STEPS = 10
  /** In a longer list an element is not counted. */
  const MAX_TWINS = 1000
  const tell = (message) => parts.tell({ part: 'interaction', isTop: window.parent === window, ...message })
  // A form or a document can have something of any name, so all are called from where they are defined.
  const getterOf = ({ prototype }, name) => Object.getOwnPropertyDescriptor(prototype, name).get
  const [rootElementOf, scrollingElementOf] = ['documentElement', 'scrollingElement'].map((name) => getterOf(Document, name))
  const childrenOf = getterOf(Node, 'childNodes')
  const rootElement = () => rootElementOf.call(document)
  const first = (event) => {
    const path = event.composedPath()
    seeRoots(path)
    return path[0] instanceof Element ? path[0] : rootElement()
  }

  const find = (root, selector) => (root instanceof Document ? Document : DocumentFragment).prototype.querySelectorAll.call(root, selector)
  const rootOf = (element) => Node.prototype.getRootNode.call(element)
  function step(element) {
    const tag = tagOf(element).toLowerCase()
    const parent = parentOf(element)
    const children = parent ? childrenOf.call(parent) : []
    if (children.length > 2 * MAX_TWINS) return tag
    const twins = [...children].filter((node) => node instanceof Element && tagOf(node) === tagOf(element))
    return twins.length > 1 ? `${tag}:nth-of-type(${twins.indexOf(element) + 1})` : tag
  }
  /** A CSS selector; `>>>` goes into a shadow root. */
  function selectorOf(element) {
    const steps = []
    let [node, joint] = [element, '']
    while (node instanceof Element && steps.length < MAX_STEPS) {
      const id = attr(node, 'id')
      const root = rootOf(node)
      const isOnly = id !== '' && id.length <= 100 && (root instanceof Document || root instanceof ShadowRoot) && find(root, `#${CSS.escape(id)}`).length === 1
      steps.unshift(`${isOnly ? `#${CSS.escape(id)}` : step(node)}${joint}`)
      const parent = isOnly ? root : parentOf(node)
      if (parent instanceof ShadowRoot) {
        joint = ' >>> '
        node = parent.host
      } else if (isOnly) break
      else {
        joint = ' > '
        node = parent
      }
    }
    return steps.join('').slice(0, MAX_SELECTOR)
  }

  const UNSEEN = new Set(['SCRIPT', 'STYLE', 'NOSCRIPT', 'TEMPLATE', 'TEXTAREA', 'SELECT'])
  /** The visible text of an element, without that of fields. Undefined: it may be a secret. */
  function textOf(element) {
    if (element instanceof HTMLInputElement) return ['button', 'submit', 'reset'].includes(element.type) ? element.value.trim().slice(0, MAX_TOLD) : ''
    if (fieldOf(element)) return ''
    const walker = Document.prototype.createTreeWalker.call(document, element, NodeFilter.SHOW_TEXT)
    let text = ''
    for (let count = 0; count < MAX_TEXT && text.length < MAX_TOLD && walker.nextNode(); count++) {
      const around = parentOf(walker.currentNode)
      if (!(around instanceof Element) || UNSEEN.has(tagOf(around)) || fieldOf(around)) continue
      if (Element.prototype.checkVisibility.call(around, { visibilityProperty: true }) === false) continue
      text += ` ${walker.currentNode.data}`
    }
    return text.replaceAll(/\s+/g, ' ').trim().slice(0, MAX_TOLD)
  }

  /** Whether a click may enter a part of a secret: a key of a pad on the screen, or a field of one. */
  function isSecretClick(element, text) {
    const field = fieldOf(element)
    if (field && isSecretField(field)) return true
    if (hasKnown(text)) return true
    // Keys of telephones have letters, too, and some have a picture only.
    if (text.length > 1 && !/^\d\s*[A-Z]{3,4}$/i.test(text)) return false
    for (let node = element, depth = 0; node instanceof Element && depth < 6; node = parentOf(node), depth++)
      if (['id', 'name', 'class', 'aria-label', 'role'].some((name) => namesSecret(attr(node, name)) || /key-?pad|pin-?pad|num-?pad/i.test(attr(node, name))))
        return true
    // A field that is entered is no key.
    return !(field && text === '') && parts.passwordLike.fields().some(isSecretField)
  }

  function onClick(event) {
    if (!event.isTrusted) return
    const element = first(event)
    const text = textOf(element)
    const common = { type: 'click', x: Math.round(event.clientX), y: Math.round(event.clientY), tag: tagOf(element) }
    if (isSecretClick(element, text)) tell(common)
    else tell({ ...common, selector: selectorOf(element), ...(text && { text }) })
  }

  function onKey(event) {
    if (!event.isTrusted) return
    const element = first(event)
    if (isSecretTarget(element)) return
    tell({ type: 'key', key: event.key.slice(0, 256), tag: tagOf(element), selector: selectorOf(element) })
  }

  const SETTLED_MS = 200
  const MAX_SCROLLING = 20
  /** Where each scrolled thing was when it came to rest, and those that move. */
  const rest = new WeakMap()
  const moving = new Map()
  const placeOf = (target) =>
    target === document ? { x: Math.round(scrollX), y: Math.round(scrollY) } : { x: Math.round(target.scrollLeft), y: Math.round(target.scrollTop) }
  rest.set(document, placeOf(document))
  function settle(target) {
    moving.delete(target)
    const from = rest.get(target) ?? { x: 0, y: 0 }
    const to = placeOf(target)
    rest.set(target, to)
    if (from.x === to.x && from.y === to.y) return
    const element = target === document ? (scrollingElementOf.call(document) ?? rootElement()) : target
    const selector = element && !(fieldOf(element) && isSecretField(fieldOf(element))) ? selectorOf(element) : ''
    tell({ type: 'scroll', fromX: from.x, fromY: from.y, toX: to.x, toY: to.y, ...(selector && { selector }) })
  }
  function onScroll(event) {
    const target = event.composedPath()[0]
    if (!event.isTrusted || !(target === document || target instanceof Element)) return
    if (!moving.has(target) && moving.size >= MAX_SCROLLING) return
    clearTimeout(moving.get(target))
    moving.set(target, setTimeout(settle, SETTLED_MS, target))
  }

  const unlisten = parts.listen({ click: onClick, keydown: onKey, scroll: onScroll })
  parts.ends.interaction = () => {
    unlisten()
    for (const timer of moving.values()) clearTimeout(timer)
  }
})()
