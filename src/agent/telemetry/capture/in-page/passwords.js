// Tells the agent the values of password-like fields, so that it can keep them out of what the page sends, prints and shows.
;(() => {
  const parts = globalThis.BINDINGParts
  if (parts.ends.passwords) return
  const { fields, fieldOf, foundClosed, isDigit, isSecretField, remember, seeRoots, valueOf } = parts.passwordLike
  const MIN_LENGTH = 4
  /** A longer value is told in pieces of this length. */
  const MAX_LENGTH = 256
  const MAX_PIECES = 16
  /** The digits on a card's back. */
  const isCode = (value) => /^\d{3}$/.test(value)

  /** How much is told: a script can change a field as often as it likes. What is put off is told a moment later. */
  const bucket = (most, perSecond) => {
    let [left, last] = [most, performance.now()]
    return () => {
      const now = performance.now()
      left = Math.min(most, left + ((now - last) / 1000) * perSecond)
      last = now
      if (left < 1) return false
      left--
      return true
    }
  }
  const mayTell = bucket(200, 10)
  /** What is about to be sent is not put off by what a script did before. */
  const mayTellUrgently = bucket(200, 20)
  const LATER_MS = 100
  const putOff = new Set()
  const MAX_PUT_OFF = 100
  let timer
  function tellLater(field) {
    if (putOff.size < MAX_PUT_OFF) putOff.add(field)
    timer ??= setTimeout(() => {
      timer = undefined
      const all = [...putOff]
      putOff.clear()
      for (const one of all) learn(one, true)
    }, LATER_MS)
  }

  /** What was told of each field last, and its number. */
  const told = new WeakMap()
  const numbers = new WeakMap()
  let count = 0
  function numberOf(field) {
    if (!numbers.has(field)) numbers.set(field, ++count)
    return numbers.get(field)
  }

  /** `isTyped`: more may follow, and then this was a stage of it. */
  function learn(field, isTyped = false, isUrgent = false) {
    const value = valueOf(field)
    const before = told.get(field)
    if (before?.value === value && (before.isFinal || isTyped)) return
    if (!isSecretField(field)) return
    if (isDigit(field)) learnDigits()
    if (value.length < MIN_LENGTH && (isTyped || !isCode(value))) return
    if (!mayTell() && !(isUrgent && mayTellUrgently())) return tellLater(field)
    told.set(field, { value, isFinal: !isTyped })
    const stage = before && !before.isFinal && value.startsWith(before.value) ? before.value : ''
    if (value.length >= MIN_LENGTH) remember(value, stage)
    const known = new Set(before ? piecesOf(before.value) : [])
    const stages = piecesOf(stage)
    piecesOf(value).forEach((piece, index) => {
      if (known.has(piece) && (isTyped || before.isFinal)) return
      parts.tell({ part: 'passwords', value: piece, field: numberOf(field) * MAX_PIECES + index, ...(isTyped && { stage: stages[index] ?? '' }) })
    })
  }
  /** Parts of a long value, which the last one may share with the one before. */
  function piecesOf(value) {
    const pieces = []
    for (let at = 0; at < value.length && pieces.length < MAX_PIECES; at += MAX_LENGTH)
      pieces.push(value.length - at < MAX_LENGTH ? value.slice(-MAX_LENGTH) : value.slice(at, at + MAX_LENGTH))
    return pieces
  }
  let digits = ''
  /** A code that has a field for each digit. */
  function learnDigits() {
    const value = fields().filter(isDigit).map(valueOf).join('')
    if (value.length < MIN_LENGTH || value.length > MAX_LENGTH || value === digits || !mayTell()) return
    const stage = value.startsWith(digits) ? digits : ''
    remember(value, stage)
    parts.tell({ part: 'passwords', value, stage })
    digits = value
  }
  /** Scripts and the browser itself fill fields without an event. */
  function learnAll() {
    for (const field of fields()) learn(field, false, true)
  }
  /** What was typed into an element that cannot be looked into, from the events that come out of it. */
  let inside = { host: undefined, value: '' }
  function onClosed(host, { data, inputType = '' }) {
    if (inside.host !== host) inside = { host, value: '' }
    const before = inside.value
    if (inputType.startsWith('delete')) inside.value = inside.value.slice(0, -1)
    else if (typeof data === 'string') inside.value = (inside.value + data).slice(-MAX_LENGTH)
    if (inside.value.length < MIN_LENGTH || !mayTell()) return
    const stage = inside.value.startsWith(before) ? before : ''
    remember(inside.value, stage)
    parts.tell({ part: 'passwords', value: inside.value, stage, field: numberOf(host) * MAX_PIECES })
  }
  function onInput(event) {
    const path = event.composedPath()
    seeRoots(path)
    const [element] = path
    if (!(element instanceof Element)) return
    const field = fieldOf(element)
    if (field) return learn(field, event.type === 'input')
    if (event.type !== 'input' || !event.isTrusted) return
    // Something within it has been typed into.
    foundClosed(element)
    onClosed(element, event)
  }
  function onUse(event) {
    seeRoots(event.composedPath())
    learnAll()
  }
  const end = parts.listen({
    input: onInput,
    change: onInput,
    focusin: (event) => seeRoots(event.composedPath()),
    focusout: onInput,
    click: onUse,
    keydown: (event) => event.key === 'Enter' && onUse(event),
    submit: onUse,
    // `form.submit()` has this event only.
    formdata: onUse,
    pagehide: learnAll,
  })
  parts.ends.passwords = () => {
    end()
    clearTimeout(timer)
  }
  learnAll()
})()
