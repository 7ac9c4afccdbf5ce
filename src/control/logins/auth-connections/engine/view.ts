// A page model with what its words mean: made once for each page, read by all rules.
import type { Control, PageModel, Ref } from '../../../../agent/login/contract.ts'
import type { PageContext } from './interpretation.ts'
import { wordsOf, wordsOfName, wordsOfText, type Words } from './words.ts'

const TYPED = new Set(['', 'text', 'email', 'tel', 'number', 'password', 'search', 'url'])
const PRESSED = new Set(['submit', 'button', 'image', 'reset'])
const PRESSED_ROLES = new Set(['button', 'link', 'menuitem', 'option', 'tab', 'listitem', 'treeitem'])

/** One control, with the meaning of its words. */
export interface Seen {
  control: Control
  /** Of its label; of fields also its placeholder. */
  label: Words
  /** Of its name and id in the code. */
  name: Words
  /** Of the texts around it. */
  around: Words
  autocomplete: ReadonlySet<string>
  /** It takes text: an input, a select, a textarea. */
  isField: boolean
  isBox: boolean
  isClickable: boolean
}

export interface View {
  model: PageModel
  context: PageContext
  /** What a person can see, from top to bottom, so that the order in which controls were read changes nothing. */
  seen: Seen[]
  /** Fields and boxes that can be used. */
  fields: Seen[]
  boxes: Seen[]
  /** Buttons and links, also such that are disabled until something has been typed. */
  clickables: Seen[]
  /** Clickables that are not shown, as in a closed menu. */
  hidden: Seen[]
  title: Words
  headings: Words
  /** Of the visible text, without the labels of buttons and links. */
  body: Words
  bodyText: string
  path: Words
  refs: ReadonlySet<Ref>
}

/** What the words of a model mean. */
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

/** From top to bottom, as a person reads. Of two in one place, in the order of their names, which no read changes. */
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

/** Buttons speak of what could be done ("use the app instead"), not of what the page is about. */
function withoutLabels(body: string, clickables: Seen[]): string {
  let text = body
  for (const { control } of clickables) if (control.label.length >= 8) text = text.replace(control.label, ' . ')
  return text
}

/** Path of an address, and of one in its fragment as single-page applications have; empty if it is none. */
export function pathOf(url: string): string {
  if (!URL.canParse(url)) return ''
  const { pathname, hash } = new URL(url)
  return /^#!?\//.test(hash) ? `${pathname}${hash.split('?')[0]!}` : pathname
}

/** Distance of two controls between their boxes from top to bottom; negative when they overlap. */
export const gapBelow = (upper: Control, lower: Control): number => lower.box.y - (upper.box.y + upper.box.height)

/** Where a control belongs: a form, or what of a frame or a dialog is in no form. */
export const placeOf = ({ frame, form, in_dialog }: Control): string => (form === null ? `${frame}/${in_dialog ? 'dialog' : 'page'}` : `form ${form}`)
