// Reads a document as a login form: its controls, texts and messages, never values. Bounded: a page can have any number of elements, and texts of any length.
;(() => {
  const login = globalThis.LOGIN
  if (login.read) return
  const p = login.parts
  const { attr, tagOf, rectOf, textOf, isShown, labelsOf } = p
  /** Nodes that are visited, and how long. What comes after is not read. */
  const MAX_NODES = 60_000
  const WALK_MS = 1_500
  const MAX_DEPTH = 2_000
  /** The same for what is asked of each control. */
  const DETAILS_MS = 1_500
  /** Of each kind: fields, and what is clicked. */
  const MAX_OF_KIND = 400
  const MAX_FORMS = 100
  const MAX_CLOSED = 20

  const NO_FIELD = new Set(['hidden', 'submit', 'image', 'button', 'reset'])
  const BUTTON_TYPES = new Set(['submit', 'image', 'button', 'reset'])
  const ROLES = new Set(['button', 'link', 'checkbox', 'radio', 'tab', 'menuitem', 'option', 'switch', 'textbox', 'combobox', 'menuitemradio'])
  const FIELD_ROLES = new Set(['checkbox', 'radio', 'switch', 'textbox', 'combobox'])
  const ALERT_WORD =
    /^(?:error|errors|err|invalid|alert|warn|warning|danger|fehler|erreur|fail|failed|failure|fout|errore|erro|feil|virhe|chyba|hiba|ошибка)$|^(?:error|fehler|invalid)/
  const HEADING = /^h[1-6]$/

  /** What an element is for a login: a field, something to click, or nothing of that. */
  function kindOf(element, tag) {
    if (tag === 'input') return element.type === 'hidden' ? undefined : NO_FIELD.has(element.type) ? 'click' : 'field'
    if (tag === 'select' || tag === 'textarea') return 'field'
    if (tag === 'button' || tag === 'summary') return 'click'
    if (tag === 'a') return attr(element, 'href') || attr(element, 'role') || attr(element, 'onclick') ? 'click' : undefined
    const role = attr(element, 'role').toLowerCase()
    if (ROLES.has(role)) return FIELD_ROLES.has(role) ? 'field' : 'click'
    if (element instanceof HTMLElement && attr(element, 'contenteditable') !== '' && element.isContentEditable) return 'field'
    const tabindex = attr(element, 'tabindex')
    if (attr(element, 'onclick') || (tabindex !== '' && tabindex !== '-1')) return tag === 'body' || tag === 'iframe' ? undefined : 'click'
    return undefined
  }

  /** Words of class names and ids: `p.errornote`, `Mui-error`, `is-invalid`, `alertBox`. */
  const saysAlert = (element) =>
    `${attr(element, 'class').slice(0, 500)} ${attr(element, 'id').slice(0, 200)}`
      .replaceAll(/([\p{Ll}\d])(\p{Lu})/gu, '$1 $2')
      .toLowerCase()
      .split(/[^\p{L}]+/u)
      .some((word) => ALERT_WORD.test(word))

  /** The whole document in the order of its elements, with what is inside shadow roots. */
  function walk() {
    const found = { fields: [], clicks: [], forms: [], headings: [], alerts: [], dialogs: 0, closed: [], cut: false }
    const body = []
    let [bodyLength, nodes] = [0, 0]
    const end = performance.now() + WALK_MS
    const rendered = new WeakMap()
    const isRendered = (element) => {
      let answer = rendered.get(element)
      if (answer === undefined) rendered.set(element, (answer = p.isRendered(element, { opacityProperty: true, visibilityProperty: true })))
      return answer
    }
    /** The last texts before this place. */
    let near = ''

    const seeText = (node, parent) => {
      if (!parent || p.SILENT.has(tagOf(parent)) || !isRendered(parent)) return
      const text = p.squeeze(node.data.slice(0, 4_000))
      if (text === '') return
      near = text.slice(0, 300)
      if (bodyLength >= 8_000) return
      body.push(text)
      bodyLength += text.length + 1
    }

    const seeAlert = (element, tag) => {
      if (found.alerts.length >= 20 || tag === 'body' || tag === 'html' || tag === 'form' || tag === 'main' || tag === 'input') return
      const role = attr(element, 'role').toLowerCase()
      const live = attr(element, 'aria-live').toLowerCase()
      const by = role === 'alert' || role === 'status' ? 'role' : live === 'polite' || live === 'assertive' ? 'live' : saysAlert(element) ? 'class' : undefined
      if (!by || !isRendered(element)) return
      if (by === 'class' && /^(?:button|a|svg|img|i|iframe|textarea|select|option)$/.test(tag)) return
      // A label that turns red still is a label.
      if (tag === 'label' && element.control && labelsOf(element.control)[0] === element) return
      if (found.alerts.some((one) => p.contains(one.element, element))) return
      const text = textOf(element, 501)
      if (text === '' || text.length > 500) return
      if (by === 'class' && p.querySelector(element, 'input:not([type=hidden]), select, textarea')) return
      found.alerts.push({ element, text, by })
    }

    const seeElement = (element, tag, inDialog) => {
      const kind = kindOf(element, tag)
      if (kind) {
        const list = kind === 'field' ? found.fields : found.clicks
        if (list.length < MAX_OF_KIND && (kind === 'field' || isRendered(element))) list.push({ element, tag, kind, near, inDialog, order: nodes })
        else found.cut ||= list.length >= MAX_OF_KIND
      }
      if (tag === 'form' && found.forms.length < MAX_FORMS) found.forms.push(element)
      if ((HEADING.test(tag) || tag === 'legend' || attr(element, 'role') === 'heading') && found.headings.length < 30 && isRendered(element)) {
        const text = textOf(element, 300)
        if (text !== '') found.headings.push(text)
      }
      if (tag.includes('-') && !p.rootIn(element) && found.closed.length < MAX_CLOSED) found.closed.push(element)
      seeAlert(element, tag)
    }

    const isDialog = (element, tag) => {
      if (tag === 'dialog') return element.open && isRendered(element)
      const role = attr(element, 'role').toLowerCase()
      return (role === 'dialog' || role === 'alertdialog' || attr(element, 'aria-modal') === 'true') && isRendered(element) && isShown(element)
    }

    // Without recursion: a page can nest its elements as deep as it likes.
    const waiting = [{ node: p.htmlOf(), inDialog: false, depth: 0 }]
    while (waiting.length > 0) {
      const { node, inDialog, depth } = waiting.pop()
      if (!node) continue
      if (++nodes > MAX_NODES || (nodes % 256 === 0 && performance.now() > end)) {
        found.cut = true
        break
      }
      const next = depth > 0 ? p.nextSibling(node) : null
      if (next) waiting.push({ node: next, inDialog, depth })
      if (node instanceof Text) {
        seeText(node, p.parentOf(node) instanceof Element ? p.parentOf(node) : null)
        continue
      }
      if (!(node instanceof Element)) continue
      const tag = tagOf(node)
      const opens = isDialog(node, tag)
      if (opens) found.dialogs++
      seeElement(node, tag, inDialog || opens)
      if (depth >= MAX_DEPTH || (p.SILENT.has(tag) && tag !== 'head')) continue
      const inside = { inDialog: inDialog || opens, depth: depth + 1 }
      const light = p.firstChild(node)
      if (light) waiting.push({ node: light, ...inside })
      const root = p.rootIn(node)
      if (root && p.firstChild(root)) waiting.push({ node: p.firstChild(root), ...inside })
    }
    return { ...found, body: body.join(' ').slice(0, 8_000) }
  }

  function labelOf(element, tag, kind, near) {
    const own = []
    const isButton = kind === 'click'
    const wrapped = labelsOf(element)
    if (!isButton)
      for (const label of wrapped) {
        const text = textOf(label, 300)
        if (text !== '') own.push({ label: text, from: p.contains(label, element) ? 'wrap' : 'for' })
      }
    if (own.length > 0) return own[0]
    const by = p
      .squeeze(
        p
          .named(element, 'aria-labelledby')
          .map((one) => textOf(one, 300))
          .join(' '),
      )
      .slice(0, 300)
    if (by !== '') return { label: by, from: 'aria' }
    const aria = p.squeeze(attr(element, 'aria-label').slice(0, 600)).slice(0, 300)
    if (aria !== '') return { label: aria, from: 'aria' }
    if (isButton) {
      const isInput = tag === 'input'
      const text = isInput ? '' : textOf(element, 300)
      if (text !== '') return { label: text, from: 'text' }
      // What is written on a button is no value that somebody typed.
      if (isInput && element.type !== 'image') {
        const value = p.squeeze(attr(element, 'value').slice(0, 600)).slice(0, 300)
        return value === '' ? { label: element.type === 'submit' ? 'Submit' : '', from: 'value' } : { label: value, from: 'value' }
      }
      const image = isInput ? element : p.querySelector(element, 'img[alt], [aria-label], svg title')
      const alt = image
        ? p.squeeze((attr(image, 'alt') || attr(image, 'aria-label') || (isInput ? '' : (image.textContent ?? ''))).slice(0, 600)).slice(0, 300)
        : ''
      if (alt !== '') return { label: alt, from: 'alt' }
    }
    const placeholder = p.squeeze((attr(element, 'placeholder') || attr(element, 'data-placeholder')).slice(0, 600)).slice(0, 300)
    if (placeholder !== '' && !isButton) return { label: placeholder, from: 'placeholder' }
    const title = p.squeeze(attr(element, 'title').slice(0, 600)).slice(0, 300)
    if (title !== '') return { label: title, from: 'title' }
    return near !== '' && !isButton ? { label: near, from: 'near' } : { label: '', from: 'none' }
  }

  function leadsTo(address) {
    if (address === '') return { host: null, path: null }
    try {
      const url = new URL(address.slice(0, 4_096), p.baseOf())
      return /^https?:$/.test(url.protocol) ? { host: url.hostname.slice(0, 253), path: url.pathname.slice(0, 300) } : { host: null, path: null }
    } catch {
      return { host: null, path: null }
    }
  }

  function pathOf(element) {
    const steps = []
    for (let node = element, depth = 0; node instanceof Element && depth < 60; node = p.parentOf(node), depth++) {
      let place = 1
      const tag = tagOf(node)
      for (let before = node.previousElementSibling, left = 500; before instanceof Element && left > 0; before = before.previousElementSibling, left--)
        if (tagOf(before) === tag) place++
      steps.unshift(`${/^[a-z][a-z0-9-]*$/.test(tag) ? tag : '*'}[${place}]`)
    }
    return `/${steps.join('/')}`.slice(-1_000)
  }

  const hasValue = (element, tag) => {
    if (tag === 'input') return !BUTTON_TYPES.has(element.type) && !p.isCheckable(element) && element.value !== ''
    if (tag === 'textarea') return element.value !== ''
    if (tag === 'select') return element.value !== ''
    return element.isContentEditable === true && textOf(element, 1) !== ''
  }
  const checkedOf = (element, tag, role) => {
    if (p.isCheckable(element)) return element.checked
    if (tag === 'input' || !/^(?:checkbox|radio|switch|menuitemradio)$/.test(role)) return null
    return attr(element, 'aria-checked') === 'true'
  }
  function isEnabled(element) {
    if ('disabled' in element && p.matches(element, ':disabled')) return false
    if ((element instanceof HTMLInputElement || element instanceof HTMLTextAreaElement) && element.readOnly) return false
    return element.closest('[aria-disabled="true"], [inert]') === null
  }
  /** Buttons and links also by what script libraries call the elements that they are drawn with. */
  const isOff = (element) => element.closest('.disabled, .is-disabled, .x-item-disabled, .ui-state-disabled, .dijitDisabled') !== null
  const isOn = (element) => isEnabled(element) && !isOff(element)
  const isCovered = (element) => {
    const { left, top, width, height } = rectOf(element)
    const [x, y] = [left + width / 2, top + height / 2]
    if (x < 0 || y < 0 || x >= innerWidth || y >= innerHeight) return false
    return !p.isReached(element, x, y)
  }

  function controlOf({ element, tag, kind, near, inDialog }, forms) {
    const role = attr(element, 'role').toLowerCase().slice(0, 32)
    const type = tag === 'input' ? element.type : tag === 'button' ? attr(element, 'type').toLowerCase() : ''
    const face = p.faceOf(element)
    const visible = isShown(face)
    const { label, from } = labelOf(element, tag, kind, near)
    const form = 'form' in element && element.form ? element.form : element.closest('form')
    const at = forms.indexOf(form)
    const link = leadsTo(tag === 'a' ? attr(element, 'href') : attr(element, 'formaction'))
    const described = [...p.named(element, 'aria-errormessage'), ...p.named(element, 'aria-describedby')].map((one) =>
      p.isRendered(one) ? textOf(one, 300) : '',
    )
    const { x, y, width, height } = rectOf(face)
    const most = Number(attr(element, 'maxlength'))
    return {
      tag: ['input', 'select', 'textarea', 'button', 'a'].includes(tag) ? tag : 'other',
      type: type.slice(0, 32),
      name: attr(element, 'name').slice(0, 200),
      id: attr(element, 'id').slice(0, 200),
      autocomplete: p.autocompleteOf(element).toLowerCase().slice(0, 200),
      inputmode: attr(element, 'inputmode').toLowerCase().slice(0, 32),
      maxlength: attr(element, 'maxlength') !== '' && Number.isInteger(most) && most >= 0 ? Math.min(most, 1_000_000) : null,
      pattern: attr(element, 'pattern').slice(0, 200),
      required: element.required === true || attr(element, 'aria-required') === 'true',
      visible,
      covered: visible && isCovered(face),
      enabled: kind === 'field' ? isEnabled(element) : isOn(element),
      has_value: hasValue(element, tag),
      checked: checkedOf(element, tag, role),
      label,
      label_from: from,
      placeholder: p.squeeze(attr(element, 'placeholder').slice(0, 600)).slice(0, 300),
      near,
      form: at < 0 ? null : at,
      invalid: attr(element, 'aria-invalid') === 'true' || (kind === 'field' && p.matches(element, ':user-invalid')),
      described: p.squeeze(described.join(' ')).slice(0, 300),
      role,
      href_host: link.host,
      href_path: link.path,
      submits: form !== null && ((tag === 'button' && element.type === 'submit') || (tag === 'input' && (type === 'submit' || type === 'image'))),
      options: tag === 'select' ? [...element.options].slice(0, 60).map((option) => p.squeeze(option.text.slice(0, 300)).slice(0, 100)) : [],
      in_dialog: inDialog,
      box: { x: Math.round(x), y: Math.round(y), width: Math.max(0, Math.round(width)), height: Math.max(0, Math.round(height)) },
      xpath: pathOf(element),
    }
  }

  /** The elements of the last read, by their numbers. */
  let held = { generation: -1, elements: [] }
  login.elementOf = (generation, index) => (held.generation === generation ? held.elements[index] : undefined)
  login.candidates = () => walk().closed.slice(0, MAX_CLOSED)
  login.open = (host, root) => void p.closed.set(host, root)

  /** All of it as plain values. The elements are kept as those of `generation`. */
  login.read = (generation) => {
    const { fields, clicks, forms, headings, alerts, dialogs, body, closed } = walk()
    const formOf = (form) => ({
      ...leadsTo(form.getAttribute instanceof Function ? attr(form, 'action') : ''),
      method: attr(form, 'method').toLowerCase().slice(0, 10) || 'get',
    })
    const end = performance.now() + DETAILS_MS
    const read = []
    for (const one of [...fields, ...clicks]) {
      if (performance.now() > end) break
      read.push({ ...one, control: controlOf(one, forms) })
    }
    // Fields that are shown are worth the most, then what can be clicked.
    const worth = ({ kind, control }) => (kind === 'field' ? (control.visible ? 0 : 2) : control.visible ? 1 : 3)
    const kept = read
      .toSorted((one, other) => worth(one) - worth(other))
      .slice(0, MAX_OF_KIND)
      .toSorted((one, other) => one.order - other.order)
    held = { generation, elements: kept.map(({ element }) => element) }
    const invalid = kept.flatMap(({ control }, index) =>
      control.invalid && control.described !== '' ? [{ text: control.described, by: 'invalid', control: index }] : [],
    )
    return {
      title: p.squeeze(String(p.titleOf()).slice(0, 600)).slice(0, 300),
      language: attr(p.htmlOf(), 'lang').slice(0, 35),
      status: performance.getEntriesByType('navigation')[0]?.responseStatus ?? 0,
      origin: self.origin,
      forms: forms.map(formOf),
      controls: kept.map(({ control }) => control),
      headings,
      alerts: [...alerts.map(({ text, by }) => ({ text, by, control: null })), ...invalid].slice(0, 20),
      dialogs,
      body,
      closed: closed.length,
      passkeys: globalThis.EVENTHeard?.count ?? 0,
    }
  }

  /** What changes when the page answers: fields, messages, headings, what can be clicked where there is no field, and whether it is switched on. Nothing of it leaves this world but its numbers. */
  login.pulse = () => {
    const { fields, clicks, headings, alerts, dialogs, body } = walk()
    const shown = fields.filter(({ element }) => isShown(p.faceOf(element)))
    const what = ({ element, tag }) => [tag, element.type ?? '', attr(element, 'name'), attr(element, 'id'), p.autocompleteOf(element)].join(' ').slice(0, 500)
    const links = shown.length > 0 ? [] : clicks.slice(0, 100).map(({ element }) => `${isOn(element)} ${textOf(element, 60)}`)
    const invalid = shown.filter(({ element }) => attr(element, 'aria-invalid') === 'true').length
    return {
      fields: hash([...shown.map(what), ...links].join('\n')),
      alerts: hash(alerts.map(({ text }) => text).join('\n') + invalid),
      rest: hash(headings.join('\n') + dialogs),
      body: hash(body),
      hasFields: shown.length > 0,
      isParsed: p.readyState() !== 'loading',
    }
  }
  function hash(text) {
    let [high, low] = [0x811c9dc5, 0x1b873593]
    for (let at = 0; at < text.length; at++) {
      low = Math.imul(low ^ text.charCodeAt(at), 0x01000193)
      high = Math.imul(high ^ low, 0x85ebca6b) ^ (low >>> 13)
    }
    return `${(high >>> 0).toString(36)}.${(low >>> 0).toString(36)}`
  }

  /** Where the content of a frame is in this document, and whether it is shown. `frame` is the element that has it. */
  login.place = (frame) => {
    const { left, top } = rectOf(frame)
    const style = getComputedStyle(frame)
    const [x, y] = [left + frame.clientLeft + Number.parseFloat(style.paddingLeft), top + frame.clientTop + Number.parseFloat(style.paddingTop)]
    const visible = isShown(frame)
    return {
      box: { x: Math.round(x), y: Math.round(y), width: Math.max(0, Math.round(frame.clientWidth)), height: Math.max(0, Math.round(frame.clientHeight)) },
      visible,
      covered: visible && isCovered(frame),
      name: attr(frame, 'name').slice(0, 200),
      title: attr(frame, 'title').slice(0, 200),
    }
  }
})()
