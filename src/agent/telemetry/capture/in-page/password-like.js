// Which elements hold a secret: their input is never recorded. When in doubt, an element does.
;(() => {
  const parts = globalThis.BINDINGParts
  if (parts.passwordLike) return

  // A form's own fields can hide its methods and properties by their names, so all are called from where they are defined.
  const { getAttribute, matches } = Element.prototype
  const { getRootNode } = Node.prototype
  const { get: tagNameOf } = Object.getOwnPropertyDescriptor(Element.prototype, 'tagName')
  const { get: shadowOf } = Object.getOwnPropertyDescriptor(Element.prototype, 'shadowRoot')
  const { get: parentOf } = Object.getOwnPropertyDescriptor(Node.prototype, 'parentNode')
  const { get: contentOf } = Object.getOwnPropertyDescriptor(Node.prototype, 'textContent')
  const { get: inputValue } = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')
  const { get: areaValue } = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value')
  const attr = (element, name) => getAttribute.call(element, name) ?? ''
  const tagOf = (element) => String(tagNameOf.call(element)).toUpperCase()

  /** Parts of names, wherever they are in one; and whole words, as `pin`, which is also in `shipping`. The lists are those of base/redact/names.ts. */
  const PARTS = /FIELD_PARTS/
  const WORDS = new Set('FIELD_WORDS'.split(' '))
  const AUTOCOMPLETE = /(?:^|\s)(?:current-password|new-password|one-time-code|cc-[a-z-]+)(?:\s|$)/i
  /** Types of input elements that nobody types into. */
  const NOT_TYPED = new Set(['button', 'submit', 'reset', 'image', 'checkbox', 'radio', 'range', 'color', 'file', 'hidden'])
  const NAMING = ['name', 'id', 'aria-label', 'placeholder', 'title', 'data-placeholder', 'data-testid', 'label', 'formcontrolname']
  const MAX_NAME = 200

  function namesSecret(given) {
    if (!given) return false
    const name = given.slice(0, MAX_NAME)
    const lower = name.toLowerCase()
    if (PARTS.test(lower.replaceAll(/[\s_.:-]+/g, ''))) return true
    return name
      .replaceAll(/([\p{Ll}\d])(\p{Lu})/gu, '$1 $2')
      .toLowerCase()
      .split(/[^\p{L}\d]+/u)
      .some((word) => WORDS.has(word) || WORDS.has(word.replace(/\d+$/, '')))
  }

  /** Fields that have been of type password, and their names: some pages show a password in another element. */
  const ever = new WeakSet()
  const everNamed = new Set()
  const nameOf = (element) => attr(element, 'name') || attr(element, 'id')
  const MAX_NAMED = 64
  function wasPassword(element) {
    ever.add(element)
    const name = nameOf(element)
    if (name && everNamed.size < MAX_NAMED) everNamed.add(name)
  }
  const types = new MutationObserver((changes) => {
    for (const { target, oldValue } of changes) if (oldValue?.toLowerCase() === 'password') wasPassword(target)
  })
  const watchTypes = (root) => types.observe(root, { subtree: true, attributes: true, attributeFilter: ['type'], attributeOldValue: true })
  watchTypes(document)

  /** Shadow roots that events have come from. */
  const roots = new Map()
  const MAX_ROOTS = 64
  function seeRoots(path) {
    for (const node of path)
      if (node instanceof ShadowRoot && !roots.has(node)) {
        if (roots.size >= MAX_ROOTS) roots.delete(roots.keys().next().value)
        roots.set(node, true)
        watchTypes(node)
      }
  }

  const valueOf = (element) => {
    if (element instanceof HTMLInputElement) return inputValue.call(element)
    if (element instanceof HTMLTextAreaElement) return areaValue.call(element)
    return element instanceof HTMLElement && element.isContentEditable === true ? contentOf.call(element) : ''
  }

  /** The values that were learned, so that the same value is known in another element. */
  const known = new Set()
  const MAX_KNOWN = 64
  /** `stage`: what was remembered of it while it was typed. */
  function remember(value, stage) {
    known.delete(stage)
    known.delete(value)
    known.add(value)
    if (known.size > MAX_KNOWN) known.delete(known.values().next().value)
  }
  const hasKnown = (text) => text.length >= 4 && [...known].some((value) => text.includes(value))

  const isHidden = (element) => {
    const { webkitTextSecurity } = getComputedStyle(element)
    return webkitTextSecurity !== undefined && webkitTextSecurity !== '' && webkitTextSecurity !== 'none'
  }

  function labelled(element) {
    const labels = [...(element.labels ?? [])].slice(0, 4).map((label) => contentOf.call(label))
    const root = getRootNode.call(element)
    const ids = attr(element, 'aria-labelledby').split(/\s+/).filter(Boolean).slice(0, 4)
    const others = ids.map((id) => (root instanceof ShadowRoot ? root.getElementById(id) : Document.prototype.getElementById.call(document, id)))
    return [...labels, ...others.map((other) => (other ? contentOf.call(other) : ''))]
  }

  /** A box for one digit of a code. */
  const isDigit = (element, type = attr(element, 'type').toLowerCase()) =>
    element instanceof HTMLInputElement &&
    attr(element, 'maxlength') === '1' &&
    (['tel', 'number'].includes(type) || attr(element, 'inputmode') === 'numeric' || /\d|\\d/.test(attr(element, 'pattern')))

  /** A code that was sent to someone: a few digits. Codes of places and of offers are none. */
  function isSentCode(element, type) {
    const isNumber = ['tel', 'number'].includes(type) || /^(?:numeric|decimal|tel)$/i.test(attr(element, 'inputmode'))
    const most = Number(attr(element, 'maxlength'))
    if (!isNumber || !(most >= 4 && most <= 8)) return false
    const texts = [...NAMING.map((name) => attr(element, name)), ...labelled(element)].map((text) => text.slice(0, MAX_NAME))
    return texts.some((text) => /code/i.test(text)) && !texts.some((text) => /zip|post|area|country|region|promo|coupon|discount|voucher/i.test(text))
  }

  /** Whether a field, or an editable element, holds a secret. */
  function isSecretField(element) {
    const isInput = element instanceof HTMLInputElement
    const type = isInput ? attr(element, 'type').toLowerCase() : ''
    if (isInput && NOT_TYPED.has(type)) return false
    if (isInput && (type === 'password' || element.type === 'password')) {
      wasPassword(element)
      return true
    }
    if (ever.has(element) || everNamed.has(nameOf(element))) return true
    if (AUTOCOMPLETE.test(attr(element, 'autocomplete'))) return true
    if (NAMING.some((name) => namesSecret(attr(element, name)))) return true
    if (isInput && (isDigit(element, type) || isSentCode(element, type))) return true
    if (labelled(element).some(namesSecret)) return true
    return hasKnown(valueOf(element)) || isHidden(element)
  }

  /** What can have the focus by itself, and no shadow root. */
  const FOCUSABLE =
    'a[href], area, button, input, select, textarea, iframe, embed, object, summary, audio, video, [contenteditable], html, ' +
    '[tabindex]:not(article, aside, blockquote, div, footer, h1, h2, h3, h4, h5, h6, header, main, nav, p, section, span)'
  /** A body gets the keys when nothing has the focus. It is `:focus` itself by what is within it. */
  const BODY = 'body:not(:focus), body[tabindex]'
  /**
   * Whether something that has got a key or a text may have an inside that cannot be looked into: a closed shadow root. Such an element has the focus although it could not
   * have it by itself, or is one that the page has defined, or could have both: then nobody can tell.
   */
  const isClosed = (element) =>
    ever.has(element) || (!shadowOf.call(element) && (tagOf(element).includes('-') || !(matches.call(element, FOCUSABLE) || matches.call(element, BODY))))

  /** The field or the editable element that an event is about, from the element that has got it. */
  function fieldOf(element) {
    if (element instanceof HTMLInputElement || element instanceof HTMLTextAreaElement || element instanceof HTMLSelectElement) return element
    let editable
    for (let node = element, depth = 0; node instanceof Element && depth < 64; node = parentOf.call(node), depth++)
      if (node instanceof HTMLElement && node.isContentEditable === true) editable = node
      else if (editable) break
    return editable
  }

  parts.passwordLike = {
    attr,
    tagOf,
    parentOf: (node) => parentOf.call(node),
    contentOf: (node) => contentOf.call(node),
    valueOf,
    fieldOf,
    isSecretField,
    namesSecret,
    hasKnown,
    remember,
    seeRoots,
    isHidden,
    isDigit,
    /** Tells that an element has an inside that cannot be looked into. */
    foundClosed: (element) => ever.add(element),
    /** Whether a key that this element has got may be part of a secret. */
    isSecretTarget(element) {
      const field = fieldOf(element)
      if (field) return isSecretField(field)
      return isClosed(element)
    },
    /** Fields of the document and of shadow roots that were seen. */
    fields() {
      const all = [document, ...roots.keys()].flatMap((root) => {
        const found = root === document ? Document.prototype.querySelectorAll.call(document, FIELDS) : root.querySelectorAll(FIELDS)
        return [...found].slice(0, MAX_FIELDS)
      })
      return all.slice(0, MAX_FIELDS)
    },
    /** Whether a secret can be read on the screen. */
    isShown() {
      return parts.passwordLike.fields().some((field) => valueOf(field) !== '' && field.type !== 'password' && isSecretField(field) && !isHidden(field))
    },
  }
  const FIELDS = 'input, textarea, [contenteditable]'
  const MAX_FIELDS = 1000
})()
