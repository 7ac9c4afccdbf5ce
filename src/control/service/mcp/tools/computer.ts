// computer_action: a list of actions on a session's screen, with what the last one returns.
import { z } from 'zod'
import {
  ClickMouseBody,
  computer,
  CursorBody,
  DragMouseBody,
  MoveMouseBody,
  PressKeyBody,
  ScreenshotBody,
  ScrollBody,
  SleepBody,
  TypeTextBody,
  type Action as BatchAction,
} from '../../../../agent/computer/contract.ts'
import { fault } from '../../../../http/fault.ts'
import { browsers } from '../../../sessions/browsers/contract.ts'
import type { Api } from '../api.ts'
import { boundedJson, textResult, type Content, type Result } from '../results.ts'
import { single } from '../tool.ts'

const MAX_ACTIONS = 1_000
/** Bytes of a picture. A host holds it as text, four thirds as long, and a model takes no larger one. */
const MAX_PICTURE_BYTES = 8 * 1024 * 1024
const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])

/** What the API runs as one call. */
const BATCHED = {
  click_mouse: ClickMouseBody,
  move_mouse: MoveMouseBody,
  type_text: TypeTextBody,
  press_key: PressKeyBody,
  scroll: ScrollBody,
  drag_mouse: DragMouseBody.extend({
    path: z
      .array(z.array(z.int().min(0).max(65_535)).length(2))
      .min(2)
      .max(MAX_ACTIONS),
  }),
  set_cursor: CursorBody,
  sleep: SleepBody,
} as const
/** What returns something, so nothing can follow it. */
const LAST = ['screenshot', 'get_mouse_position', 'read_clipboard'] as const

/** What has parameters, in a field of its own name. */
const PARAMETERS = { ...BATCHED, write_clipboard: computer.writeClipboard.body, screenshot: ScreenshotBody }
const TYPES = [...(Object.keys(BATCHED) as (keyof typeof BATCHED)[]), 'write_clipboard', ...LAST] as const

const OneAction = z.strictObject({
  type: z.enum(TYPES).describe('What is done; the field of the same name has its parameters.'),
  ...Object.fromEntries(Object.entries(PARAMETERS).map(([name, schema]) => [name, schema.describe(`Parameters of ${name}.`).optional()])),
})
type OneAction = { type: (typeof TYPES)[number] } & { [K in keyof typeof PARAMETERS]?: z.input<(typeof PARAMETERS)[K]> }

export const computerAction = single(
  {
    name: 'computer_action',
    toolset: 'computer',
    title: 'Control a browser with mouse and keyboard, and see its screen',
    description: `Control the screen of a browser session: one action, or several that are done in order without time between them. Use sleep where a page needs time. End with a screenshot to see what has happened: ${LAST.join(', ')} return something, so one of them can only be the last action. Coordinates are pixels of the screen from its top left corner.`,
    hints: { openWorldHint: true },
    needs: ['session_id', 'actions'],
    fields: {
      session_id: z.string().min(1).describe('Id or name of the session.'),
      actions: z.array(OneAction).min(1).max(MAX_ACTIONS).describe('The actions, in order.'),
    },
  },
  async ({ session_id: session, actions }, api) => {
    checkPlan(actions as OneAction[])
    const last = LAST.find((type) => type === actions.at(-1)!.type)
    const before = (last === undefined ? actions : actions.slice(0, -1)) as OneAction[]
    for (const part of parts(before)) {
      if ('text' in part) await api.inside(session, computer.writeClipboard, { body: part })
      else await api.inside(session, computer.batchActions, { body: { actions: part.actions } as never })
    }
    const did = before.length === 0 ? [] : [`${before.length} ${before.length === 1 ? 'action is' : 'actions are'} done.`]
    if (last === undefined) return textResult(did[0]!)
    return returned(session, last, actions.at(-1) as OneAction, did, api)
  },
)

/** Refuses a list that cannot be done as a whole before anything of it is done. */
function checkPlan(actions: OneAction[]): void {
  const problems = actions.flatMap((action, at) => {
    const { type, ...given } = action
    const here = (field: string, problem: string) => [{ field: `actions.${at}${field}`, problem }]
    const foreign = Object.keys(given).find((name) => name !== type && given[name as keyof typeof PARAMETERS] !== undefined)
    if (foreign !== undefined) return here(`.${foreign}`, `does not belong to an action of type ${type}`)
    if (LAST.some((name) => name === type)) return at === actions.length - 1 ? [] : here('', `${type} can only be the last action`)
    return action[type as keyof typeof PARAMETERS] === undefined ? here(`.${type}`, `is required for an action of type ${type}`) : []
  })
  if (problems.length > 0) throw fault.invalid(problems)
}

type Part = { actions: BatchAction[] } | { text: string }

/** What is one call each. Writing the clipboard cannot be batched. */
function parts(actions: OneAction[]): Part[] {
  const found: Part[] = []
  for (const action of actions) {
    const open = found.at(-1)
    if (action.type === 'write_clipboard') found.push(action.write_clipboard as { text: string })
    else if (open && 'actions' in open) open.actions.push(action as BatchAction)
    else found.push({ actions: [action as BatchAction] })
  }
  return found
}

async function returned(session: string, last: (typeof LAST)[number], action: OneAction, did: string[], api: Api): Promise<Result> {
  const texts = (...more: string[]): Content[] => [...did, ...more].map((text) => ({ type: 'text', text }))
  if (last === 'get_mouse_position') return { content: texts(boundedJson(await api.inside(session, computer.getMousePosition, {}))) }
  if (last === 'read_clipboard') return { content: texts(boundedJson(await api.inside(session, computer.readClipboard, {}))) }
  const [picture, { viewport }] = await Promise.all([
    api.inside(session, computer.captureScreenshot, { body: (action.screenshot ?? {}) as z.input<typeof ScreenshotBody> }),
    api.call(browsers.getBrowser, { params: { id_or_name: session }, query: {} }),
  ])
  if (!picture.subarray(0, PNG.length).equals(PNG)) throw fault.badGateway("the browser's agent gave an answer that is no picture")
  if (picture.length > MAX_PICTURE_BYTES) throw fault.badGateway(`the picture has more than ${MAX_PICTURE_BYTES} bytes; ask for a region of the screen`)
  return {
    content: [
      ...texts(`The screen has ${viewport.width} x ${viewport.height} pixels. Coordinates of actions are in these.`),
      { type: 'image', data: picture.toString('base64'), mimeType: 'image/png' },
    ],
  }
}
