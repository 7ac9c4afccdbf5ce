// computer_action: runs a list of actions on a session's screen, and returns the result of the last one.
import * as z from 'zod'
import { BatchBody, computer, MAX_ACTIONS, type Action } from '../../../../agent/computer/contract.ts'
import { fault } from '../../../../http/fault.ts'
import { browsers } from '../../../sessions/browsers/contract.ts'
import { inSession, type Api } from '../api.ts'
import { boundedJson, type Content, type Result } from '../results.ts'
import { tool, type Given } from '../tool.ts'

/** Largest picture in bytes. A host has it as text, a third longer, and models accept no larger one. */
const MAX_PICTURE_BYTES = 8 * 1024 * 1024
const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])

const calls = {
  batch: inSession(computer.batchActions),
  write: inSession(computer.writeClipboard),
  read: inSession(computer.readClipboard),
  position: inSession(computer.getMousePosition),
  screenshot: inSession(computer.captureScreenshot),
}

/** Actions that the API runs as one batch; actions that need their own call; and actions that return something, after which no other can follow. */
const { element: Batched } = BatchBody.shape.actions
const Write = z.strictObject({ type: z.literal('write_clipboard'), write_clipboard: computer.writeClipboard.body })
const LAST = ['screenshot', 'get_mouse_position', 'read_clipboard'] as const
const Last = [
  z.strictObject({ type: z.literal('screenshot'), screenshot: computer.captureScreenshot.body.optional() }),
  ...LAST.slice(1).map((type) => z.strictObject({ type: z.literal(type) })),
] as const
const OneAction = z.discriminatedUnion('type', [...Batched.options, Write, ...Last])
type OneAction = z.input<typeof OneAction>

const isLast = ({ type }: OneAction): boolean => LAST.some((name) => name === type)

export const computerAction = tool({
  name: 'computer_action',
  title: 'Control a browser with mouse and keyboard, and see its screen',
  description: `Control the screen of a browser session: one action, or several that are done in order without time between them. The type of an action says what is done; the field of the same name has its parameters. Use sleep where a page needs time. End with a screenshot to see what has happened: ${LAST.join(', ')} return something, so one of them can only be the last action. Coordinates are pixels of the screen from its top left corner.`,
  hints: { openWorldHint: true },
  fields: { session_id: 'Id or name of the session.', actions: 'The actions, in order.' },
  does: { own: { session_id: z.string().min(1), actions: z.array(OneAction).min(1).max(MAX_ACTIONS) }, run: perform },
})

async function perform({ session_id: id, actions }: Given, api: Api): Promise<Result> {
  const all = actions as OneAction[]
  // A list that cannot be run completely is refused before its first action.
  const early = all.slice(0, -1).findIndex(isLast)
  if (early !== -1) throw fault.field(`actions.${early}`, `${all[early]!.type} can only be the last action`)
  const last = isLast(all.at(-1)!) ? all.at(-1) : undefined
  const before = last ? all.slice(0, -1) : all
  const params = { id: id as string }
  for (const part of parts(before)) {
    if ('text' in part) await api.call(calls.write, { params, body: part })
    else await api.call(calls.batch, { params, body: part })
  }
  const did = before.length === 0 ? [] : [`${before.length} ${before.length === 1 ? 'action is' : 'actions are'} done.`]
  const content = last ? await returned(last, params, api) : []
  return { content: [...did.map((text) => ({ type: 'text' as const, text })), ...content] }
}

/** Splits a list into calls. Writing the clipboard cannot be in a batch. */
function parts(actions: OneAction[]): ({ actions: Action[] } | { text: string })[] {
  const found: ReturnType<typeof parts> = []
  for (const action of actions) {
    const open = found.at(-1)
    if (action.type === 'write_clipboard') found.push((action as z.input<typeof Write>).write_clipboard)
    else if (open && 'actions' in open) open.actions.push(action as Action)
    else found.push({ actions: [action as Action] })
  }
  return found
}

async function returned(last: OneAction, params: { id: string }, api: Api): Promise<Content[]> {
  if (last.type !== 'screenshot') {
    const value = last.type === 'read_clipboard' ? await api.call(calls.read, { params }) : await api.call(calls.position, { params })
    return [{ type: 'text', text: boundedJson(value) }]
  }
  const [picture, { viewport }] = await Promise.all([
    api.call(calls.screenshot, { params, body: (last as { screenshot?: object }).screenshot ?? {} }),
    api.call(browsers.getBrowser, { params: { id_or_name: params.id }, query: {} }),
  ])
  if (!picture.subarray(0, PNG.length).equals(PNG)) throw fault.badGateway("the browser's agent gave an answer that is no picture")
  if (picture.length > MAX_PICTURE_BYTES) throw fault.badGateway(`the picture has more than ${MAX_PICTURE_BYTES} bytes; ask for a region of the screen`)
  return [
    { type: 'text', text: `The screen has ${viewport.width} x ${viewport.height} pixels. Coordinates of actions are in these.` },
    { type: 'image', data: picture.toString('base64'), mimeType: 'image/png' },
  ]
}
