// Asks a person and waits: for an answer, for a page that changes by itself, or until the time is over.
import { newId } from '../../../../base/ids.ts'
import type { Answer, Pause, Requirement } from '../flow.ts'
import { brief } from './choosing.ts'
import type { Question } from './decision.ts'
import type { FlowBrowser } from './flow-browser.ts'
import type { Interpretation, PageContext } from './interpretation.ts'
import { addOnce, type Memory } from './memory.ts'
import { scrubbed } from './questions.ts'
import type { SecretResolver } from './secrets.ts'
import { Expired, FlowFailure, NotOurs, type Flow, type Tools } from './work.ts'

/** The published service waits 10 minutes for one answer. */
export const INPUT_MS = 10 * 60_000
/** Interval of reading the page while a person is asked: a push may be confirmed, or somebody may use the live view. */
const LOOK_MS = 2500
/** A captcha that nobody solves has its own error code, set before the rows end the flow as EXPIRED. */
const BEFORE_END_MS = 6000

interface Person {
  flow: Flow
  tools: Tools
  flowBrowser: FlowBrowser
  context: () => PageContext
  remember: () => Promise<void>
  signal: AbortSignal
}

const isSame = (one: Question, { interactionId: _, ...other }: Pause): boolean => plain(one) === plain(other)
/** The question in the form that it has after storage. */
const plain = ({ fields, choices, external }: Question): string => JSON.stringify([fields, choices, external ?? null].map(sorted))
const sorted = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.map(sorted)
    : value !== null && typeof value === 'object'
      ? Object.entries(value)
          .filter(([, each]) => each !== undefined && each !== null)
          .toSorted(([a], [b]) => (a < b ? -1 : 1))
          .map(([name, each]) => [name, sorted(each)])
      : value

/** Returns when there is an answer, which is then in the memory and the secrets, or when the page has changed. */
export async function askPerson(question: Question, seen: Interpretation, memory: Memory, secrets: SecretResolver, person: Person): Promise<void> {
  const { flow, tools, signal } = person
  const { pause, until } = await present(
    scrubbed(question, (text) => secrets.scrubber.scrub(text)),
    memory,
    person,
  )
  let nextLook = tools.clock.now() + LOOK_MS
  for (;;) {
    signal.throwIfAborted()
    // Subscribe before reading, so that an answer in between is not missed.
    const { promise, leave } = tools.flows.next(flow.id, signal)
    try {
      const now = tools.clock.now()
      const row = await tools.flows.get(flow.id)
      if (row?.state !== 'IN_PROGRESS') throw new NotOurs('the flow has ended')
      const answer = await tools.flows.takeAnswer(flow.id)
      if (answer) return await takeAnswer(answer, pause, memory, secrets, person)
      const isCaptcha = question.external?.action === 'captcha'
      if (isCaptcha && now >= until - BEFORE_END_MS) throw new FlowFailure('captcha_blocked', 'nobody has solved the captcha in time')
      if (now >= until) throw new Expired('nobody has answered in time')
      if (now >= nextLook) {
        if (await hasChanged(question, seen, memory, secrets, person)) {
          if (await tools.flows.submitting(flow.id)) return
          // Somebody has answered while the page was read, and was told that the answer is accepted.
          const late = await tools.flows.takeAnswer(flow.id)
          if (!late) throw new NotOurs('the flow has ended')
          return await takeAnswer(late, pause, memory, secrets, person)
        }
        nextLook = tools.clock.now() + LOOK_MS
      }
      await promise
    } finally {
      leave()
    }
  }
}

/** The question as the flow shows it. If it is the same as before a restart, it keeps its id and its time. */
async function present(question: Question, memory: Memory, { flow, tools, remember }: Person): Promise<{ pause: Pause; until: number }> {
  const now = tools.clock.now()
  const row = await tools.flows.get(flow.id)
  if (row?.state === 'IN_PROGRESS' && row.pause && row.input_until && isSame(question, row.pause)) return { pause: row.pause, until: row.input_until.getTime() }
  const pause: Pause = { interactionId: newId(), ...question }
  const until = Math.min(now + INPUT_MS, flow.expires_at.getTime())
  await remember()
  const step = question.external ? 'AWAITING_EXTERNAL_ACTION' : 'AWAITING_INPUT'
  if (!(await tools.flows.ask(flow.id, pause, step, new Date(until), memory.websiteError ?? null))) throw new NotOurs('the flow has ended')
  return { pause, until }
}

const REQUIREMENTS: Record<NonNullable<Question['external']>['action'], Requirement> = {
  push: 'push',
  email_link: 'email_link',
  captcha: 'captcha',
  passkey: 'passkey',
  qr: 'other',
  other: 'other',
}

/** Whether the page has changed: then the flow continues by itself. */
async function hasChanged(
  { external }: Question,
  seen: Interpretation,
  memory: Memory,
  secrets: SecretResolver,
  { tools, flowBrowser, context, remember }: Person,
): Promise<boolean> {
  const page = await flowBrowser.read()
  // A page that is loading, or was lost for a moment, decides nothing.
  if (page.error !== null) return false
  const now = secrets.scrubbed(tools.interpret(page, context()))
  if (now.signature === seen.signature && (now.websiteError === undefined || now.websiteError === seen.websiteError)) return false
  memory.hasActed = true
  memory.hasSent = true
  memory.visits = {}
  if (external) addOnce(memory.requirements, REQUIREMENTS[external.action])
  await remember()
  return true
}

/** Takes a person's answer into the memory (names only) and the secrets. */
export async function takeAnswer(
  answer: Answer,
  pause: Pause,
  memory: Memory,
  secrets: SecretResolver,
  { flow, tools, remember }: Pick<Person, 'flow' | 'tools' | 'remember'>,
): Promise<void> {
  for (const { id, key, role } of pause.fields) {
    const value = answer.values[id]
    if (value === undefined) continue
    secrets.type(key, role, value)
    if (value !== '') memory.rejected = memory.rejected.filter((other) => other !== key)
  }
  const choice = pause.choices.find(({ id }) => id === answer.choice)
  memory.chosen = choice && brief(choice, (text) => secrets.scrubber.scrub(text))
  memory.visits = {}
  memory.websiteError = undefined
  const isKept = await tools.flows.keepTyped(flow.id, secrets.typed())
  if (!isKept) throw new NotOurs('the flow has ended')
  await remember()
}
