// Reads keys through an invisible text field. Unlike a canvas it supports input methods, dead keys, pasting and phones' keyboards.
import Keyboard from 'novnc-core/input/keyboard.js'
import KeyTable from 'novnc-core/input/keysym.js'
import keysyms from 'novnc-core/input/keysymdef.js'
import { isIOS, isMac } from 'novnc-core/util/browser.js'

/** Text in the field, so that a phone's keyboard has something to delete. */
const FILLER = ' '.repeat(32)
const isCommand = (event: KeyboardEvent): boolean => (event.ctrlKey || event.metaKey) && !event.altKey

interface Taken {
  send: (keysym: number, code: string | null, down: boolean) => void
  paste: (text: string) => void
  leave: () => void
}

/**
 * Handles the keys of `field` while it has the focus. `send(keysym, code, down)` gets keys, `paste(text)` gets pasted text. Ctrl+Alt+Shift calls `leave()`, so that
 * users without a mouse can leave the field.
 */
export function takeKeys(field: HTMLTextAreaElement, { send, paste, leave }: Taken): void {
  const isApple = isMac() || isIOS()
  const isPhone = matchMedia('(pointer: coarse)').matches
  const down = new Set<number>()
  const keyboard = new Keyboard(field)
  keyboard.onkeyevent = (keysym, code, isDown) => {
    // Command on a Mac acts as Control in the session.
    const meant = isApple && code.startsWith('Meta') ? KeyTable.XK_Control_L : keysym
    if (isDown) down.add(meant)
    else down.delete(meant)
    send(meant, code, isDown)
  }
  const tap = (keysym: number): void => {
    send(keysym, null, true)
    send(keysym, null, false)
  }
  const type = (text: string): void => {
    for (const character of text) tap(character === '\n' ? KeyTable.XK_Return : keysyms.lookup(character.codePointAt(0)!))
  }
  const reset = (): void => {
    field.value = FILLER
    field.setSelectionRange(FILLER.length, FILLER.length)
  }

  const onKey = (event: KeyboardEvent): void => {
    // The input is not complete: its result comes as a composition or as input.
    if (event.isComposing || event.keyCode === 229 || event.key === 'Dead' || event.key === 'Process') return event.stopImmediatePropagation()
    if (event.type !== 'keydown') return
    if (event.ctrlKey && event.altKey && event.shiftKey) {
      event.stopImmediatePropagation()
      event.preventDefault()
      leave()
    } else if (isCommand(event) && !event.shiftKey && event.key.toLowerCase() === 'v') event.stopImmediatePropagation() // onPaste follows
  }
  const onPaste = (event: ClipboardEvent): void => {
    event.preventDefault()
    paste(event.clipboardData?.getData('text/plain').replaceAll('\r\n', '\n') ?? '')
    const held = down.has(KeyTable.XK_Control_L) || down.has(KeyTable.XK_Control_R)
    if (!held) send(KeyTable.XK_Control_L, null, true)
    tap(keysyms.lookup(0x76))
    if (!held) send(KeyTable.XK_Control_L, null, false)
  }

  /** The field's last known content. The difference from its present content was typed. */
  let before = FILLER
  const onInput = (event: Event): void => {
    const { isComposing } = event as InputEvent
    if (isComposing && !isPhone) return
    const now = field.value
    let same = 0
    while (same < now.length && same < before.length && now[same] === before[same]) same++
    for (const _ of before.slice(same)) tap(KeyTable.XK_BackSpace)
    type(now.slice(same))
    before = now
    if (!isComposing && (now.length < 8 || now.length > 200 || !isPhone)) {
      reset()
      before = FILLER
    }
  }
  const onComposed = (event: CompositionEvent): void => {
    if (isPhone) return
    type(event.data)
    reset()
    before = FILLER
  }

  field.addEventListener('keydown', onKey, { capture: true })
  field.addEventListener('keyup', onKey, { capture: true })
  field.addEventListener('paste', onPaste)
  field.addEventListener('input', onInput)
  field.addEventListener('compositionend', onComposed)
  field.addEventListener('focus', () => {
    reset()
    before = FILLER
    keyboard.grab()
  })
  // Release all pressed keys.
  field.addEventListener('blur', () => keyboard.ungrab())
}
