// A page model with the meaning of its words: made once for each page, read by all rules.
import type { Control, PageModel, Ref } from '../../../../agent/login/contract.ts'
import type { PageContext } from './interpretation.ts'
import { wordsOf, wordsOfName, wordsOfText, type Words } from './words.ts'

const TYPED = new Set(['', 'text', 'email', 'tel', 'number', 'password', 'search', 'url'])
const PRESSED = new Set(['submit', 'button', 'image', 'reset'])
const PRESSED_ROLES = new Set(['button', 'link', 'menuitem', 'option', 'tab', 'listitem', 'treeitem'])

/** One control with the meaning of its words. */
export interface Seen {
  control: Control
  /** Words of its label; for fields also of its placeholder. */
  label: Words
  /** Words of its name and id in the code. */
  name: Words
  /** Words of the texts around it. */
  around: Words
  autocomplete: ReadonlySet<string>
  /** Whether it takes text: an input, a select, a textarea. */
  isField: boolean
  isBox: boolean
  isClickable: boolean
}

export interface View {
  model: PageModel
  context: PageContext
  /** Visible controls from top to bottom, so that the order of reading has no effect. */
  seen: Seen[]
  /** Enabled fields and boxes. */
  fields: Seen[]
  boxes: Seen[]
  /** Buttons and links, also those that are disabled until something has been typed. */
  clickables: Seen[]
  /** Hidden buttons and links, for example in a closed menu. */
  hidden: Seen[]
  title: Words
  headings: Words
  /** Words of the visible text, without the labels of buttons and links. */
  body: Words
  bodyText: string
  path: Words
  refs: ReadonlySet<Ref>
}

/** Makes the view of a model. */
export function look(model: PageModel, context: PageContext): View {
  const all = model.controls.toSorted(inOrder).map(seenOf)
  const seen = all.filter(({ control }) => control.visible)
  const clickables = seen.filter(({ isClickable }) => isClickable)
  const bodyText = withoutLabels(model.body, clickables)
  return {
    model,
    context,
    seen,
    fields: seen.filter(({ isField, control }) => isField && control.enabled),
    boxes: seen.filter(({ isBox, control }) => isBox && control.enabled),
    clickables,
    hidden: all.filter(({ isClickable, control }) => isClickable && !control.visible),
    title: wordsOf(model.title),
    headings: wordsOfText(model.headings.join(' . ')),
    body: wordsOfText(bodyText),
    bodyText,
    path: wordsOfName(pathOf(model.url)),
    refs: new Set(model.controls.map(({ ref }) => ref)),
  }
}

/** From top to bottom, as a person reads. Controls at the same place are in the order of their names, which does not change between reads. */
function inOrder(a: Control, b: Control): number {
  return a.frame - b.frame || a.box.y - b.box.y || a.box.x - b.box.x || numbersOf(a.ref) - numbersOf(b.ref)
}
const numbersOf = (ref: Ref): number => Number(ref.slice(ref.lastIndexOf('.') + 1))

function seenOf(control: Control): Seen {
  const isInput = control.tag === 'input'
  const isClickable =
    control.tag === 'button' ||
    control.tag === 'a' ||
    (isInput && PRESSED.has(control.type)) ||
    (control.tag === 'other' && (control.role === '' || PRESSED_ROLES.has(control.role)))
  const isBox =
    (isInput && (control.type === 'checkbox' || control.type === 'radio')) ||
    control.role === 'checkbox' ||
    control.role === 'switch' ||
    control.role === 'radio'
  const isField =
    !isBox &&
    ((isInput && TYPED.has(control.type)) ||
      control.tag === 'select' ||
      control.tag === 'textarea' ||
      ['textbox', 'searchbox', 'combobox'].includes(control.role))
  return {
    control,
    label: wordsOf(isField ? `${control.label} . ${control.placeholder}` : control.label),
    name: wordsOfName(`${control.name} ${control.id}`),
    around: isField || isBox ? wordsOf(`${control.near} . ${control.described}`) : new Set(),
    autocomplete: new Set(control.autocomplete.toLowerCase().split(/\s+/).filter(Boolean)),
    isField,
    isBox,
    isClickable: isClickable && !isField && !isBox,
  }
}

/** Labels of buttons tell possible actions ("use the app instead"), not the subject of the page. */
function withoutLabels(body: string, clickables: Seen[]): string {
  let text = body
  for (const { control } of clickables) if (control.label.length >= 8) text = text.replace(control.label, ' . ')
  return text
}

/** The path of an address, with the path in its fragment as single-page applications use it; empty when the text is no address. */
export function pathOf(url: string): string {
  if (!URL.canParse(url)) return ''
  const { pathname, hash } = new URL(url)
  return /^#!?\//.test(hash) ? `${pathname}${hash.split('?')[0]!}` : pathname
}

/** Vertical distance between the boxes of two controls; negative when they overlap. */
export const gapBelow = (upper: Control, lower: Control): number => lower.box.y - (upper.box.y + upper.box.height)

/** The container of a control: its form, or the part of a frame or a dialog outside of forms. */
export const placeOf = ({ frame, form, in_dialog }: Control): string => (form === null ? `${frame}/${in_dialog ? 'dialog' : 'page'}` : `form ${form}`)
