// Finds a site's error message: a text near the form that is not always there.
import type { Group } from './fields.ts'
import { sentencesOf } from './describe.ts'
import type { View } from './view.ts'
import { hasAny, wordsOf, type Words } from './words.ts'

const MAX_MESSAGE = 300
/** Longer texts are help, terms or whole pages with such a class by chance. */
const LONGEST = 400

/** Texts about the next step, which are no errors. */
const NEXT_STEP = ['success', 'two_factor', 'choose_method', 'choose_account', 'choose_org', 'waiting', 'check_mail'] as const

interface Message {
  text: string
  score: number
}

/** The error message in the site's own words; undefined when there is none. */
export function websiteErrorOf(view: View, group: Group | undefined): string | undefined {
  const { model, context } = view
  const messages: Message[] = []
  const inForm = new Set(group?.roles.flatMap(({ seen, boxes }) => [seen, ...(boxes ?? [])].map(({ control }) => control.ref)))
  const isAgain = group?.roles.some(({ role }) => role === 'password') ?? false
  for (const { text, by, control } of model.alerts) {
    const words = wordsOf(text)
    if (!mayBeMessage(text, words)) continue
    const isOwn = control !== null && inForm.has(control)
    const isWrong = hasAny(words, 'wrong', 'expired', 'server_error', 'bot')
    // In an unknown language or wording, a message counts as an error when the form with the password is there again. Otherwise it explains the next step
    // ("enter the code").
    const mayBe = context.hasSubmitted && by !== 'live' && isAgain && !hasAny(words, ...NEXT_STEP)
    if (!isWrong && !mayBe) continue
    messages.push({ text, score: (isWrong ? 4 : 0) + (isOwn ? 3 : 0) + (by === 'role' ? 2 : by === 'invalid' ? 1.5 : by === 'class' ? 1 : 0) })
  }
  for (const { seen } of group?.roles ?? []) {
    const { control } = seen
    if (control.invalid && control.described !== '' && mayBeMessage(control.described, wordsOf(control.described)))
      messages.push({ text: control.described, score: wordsOf(control.described).has('wrong') ? 6 : 2 })
  }
  const best = messages.toSorted((a, b) => b.score - a.score)[0]
  if (best) return clean(view, best.text)
  return context.hasSubmitted && group ? sentence(view) : undefined
}

/** If no text is marked as a message: a heading or a sentence that says that the values are wrong. */
function sentence(view: View): string | undefined {
  // Labels have no full stops. Replaced by a full stop, they separate the texts between them into sentences.
  let body = view.bodyText
  for (const label of [...view.model.headings, ...view.fields.map(({ control }) => control.label), ...view.boxes.map(({ control }) => control.label)])
    if (label.length > 2) body = body.replace(label, ' . ')
  for (const text of [...view.model.headings, ...sentencesOf(body)]) {
    const words = wordsOf(text)
    if (
      text.length <= 200 &&
      mayBeMessage(text, words) &&
      words.has('wrong') &&
      !words.has('forgot') &&
      hasAny(words, 'user', 'password', 'code', 'email', 'sign_in', 'two_factor', 'sorry')
    )
      return clean(view, text)
  }
  return undefined
}

function mayBeMessage(text: string, words: Words): boolean {
  const trimmed = text.trim()
  if (trimmed.length < 3 || trimmed.length > LONGEST) return false
  return !words.has('cookies') && !words.has('newsletter')
}

/** Removes a link at the end ("Lost your password?"), which is not part of the message. */
function clean(view: View, text: string): string {
  const message = text.replaceAll(/\s+/g, ' ').trim()
  const link = view.clickables.find(({ control }) => control.label.length > 3 && message.length > control.label.length + 3 && message.endsWith(control.label))
  return (link ? message.slice(0, -link.control.label.length).trim() : message).slice(0, MAX_MESSAGE)
}
