// Reads a tab as a page model: its frames, each in its own isolated world, merged and cut to the limits of the contract.
import * as z from 'zod'
import type { Log } from '../../base/log.ts'
import { MAX_BODY_TEXT, MAX_CONTROLS, MAX_FORMS, PageModel, type Control } from './contract.ts'
import type { FrameState, Tab } from './tab.ts'
import { DocumentGone, type World } from './world.ts'

/** Limit on a model as JSON, in bytes: the service reads no longer answer. */
const MAX_MODEL_BYTES = 600_000
/** A large page needs layout first. The scripts end by themselves. */
const READ_MS = 6_000
/** Most closed shadow roots of one document that are read. */
const MAX_CLOSED = 10

/** The scripts' result for one document. A page that has compromised its renderer may return anything, so it is checked. */
const text = (most: number) => z.string().transform((given) => given.slice(0, most).toWellFormed())
const FrameReading = z.object({
  title: text(300),
  language: text(35),
  status: z.int().min(0).max(999),
  origin: z.string().max(4_096),
  forms: z.array(z.object({ host: z.string().max(253).nullable(), path: z.string().max(300).nullable(), method: text(10) })).max(MAX_FORMS),
  controls: z.array(z.record(z.string(), z.unknown())).max(MAX_CONTROLS),
  headings: z.array(text(300)).max(30),
  alerts: z.array(z.object({ text: text(500), by: z.enum(['role', 'live', 'invalid', 'class']), control: z.int().min(0).nullable() })).max(20),
  dialogs: z.int().min(0),
  body: text(MAX_BODY_TEXT),
  closed: z.int().min(0),
  passkeys: z.int().min(0),
})
type FrameReading = z.infer<typeof FrameReading>
const Rect = z.object({ x: z.int(), y: z.int(), width: z.int().min(0), height: z.int().min(0) })
const Place = z.object({ box: Rect, visible: z.boolean(), covered: z.boolean(), name: z.string().max(200), title: z.string().max(200) })
export type Place = z.infer<typeof Place>

/** The state of a page at one time, to compare with later ones. */
const Pulse = z.object({
  fields: z.string().max(64),
  alerts: z.string().max(64),
  rest: z.string().max(64),
  body: z.string().max(64),
  hasFields: z.boolean(),
  isParsed: z.boolean(),
})

/** One frame of a reading. */
export interface ReadFrame {
  state: FrameState
  world: World
  /** Its index among the frames, and that of the frame around it. */
  parent: number | null
}

/** The last read, to which references and waits refer. */
export interface Reading {
  generation: number
  tab: Tab
  frames: ReadFrame[]
  documents: number
  popups: number
  pulse: string
}

export async function readTab(tab: Tab, generation: number, popups: number, log: Log): Promise<{ model: PageModel; reading: Reading }> {
  const { documents } = tab
  const states = await tab.frames()
  const quietly = async <T>(work: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await work()
    } catch (err) {
      log.debug({ err }, 'a frame of a login was not read')
      return undefined
    }
  }
  const readOne = async (state: FrameState) => {
    const world = await tab.world(state)
    return { state, world, said: FrameReading.parse(await readWorld(world, generation)) }
  }
  const [top, ...inner] = states
  if (!top) throw new DocumentGone('the page has no frame')
  const own = readOne(top)
  own.catch(() => {})
  const all = [await own, ...(await Promise.all(inner.map((state) => quietly(() => readOne(state)))))]
  const read = all.filter((one) => one !== undefined)
  const indexOf = new Map(read.map(({ state }, index) => [state.id, index]))
  const frames: ReadFrame[] = []
  const places: Place[] = []
  for (const { state, world } of read) {
    const parent = state.id === top.id ? null : (indexOf.get(state.parent ?? '') ?? null)
    const around = parent === null ? undefined : frames[parent]
    const place = around && (await quietly(() => placeOf(around, state.id)))
    // A frame without a place is not visible.
    places.push(absolute(place ?? NOWHERE, parent === null ? undefined : places[parent], state.id === top.id))
    frames.push({ state, world, parent })
  }
  const model = merge(tab, generation, read, frames, places)
  const reading: Reading = { generation, tab, frames, documents, popups, pulse: '' }
  reading.pulse = (await pulseOf(tab)).text
  return { model, reading }
}

/** The same for a document whose closed shadow roots are opened first: Chromium lists them by their host elements. */
async function readWorld(world: World, generation: number): Promise<unknown> {
  const said = await world.call('read', [generation], READ_MS)
  const closed = z.object({ closed: z.int() }).safeParse(said)
  if (!closed.success || closed.data.closed === 0) return said
  let opened = 0
  for (const objectId of (await world.objects('candidates')).slice(0, MAX_CLOSED)) {
    const { node } = await world.session.send('DOM.describeNode', { objectId }, { limitMs: 1_000 })
    const root = node.shadowRoots?.find(({ shadowRootType }) => shadowRootType === 'closed')
    if (!root) continue
    const { object } = await world.session.send(
      'DOM.resolveNode',
      { backendNodeId: root.backendNodeId, executionContextId: world.contextId },
      { limitMs: 1_000 },
    )
    if (object.objectId === undefined) continue
    await world.callWith('open', objectId, [object.objectId])
    opened++
  }
  return opened > 0 ? world.call('read', [generation], READ_MS) : said
}

const NOWHERE: Place = { box: { x: 0, y: 0, width: 0, height: 0 }, visible: false, covered: false, name: '', title: '' }

/** The place of a frame's content in the frame around it. @throws DocumentGone */
export async function placeOf(around: Pick<ReadFrame, 'world'>, frameId: string): Promise<Place> {
  const { session, contextId: executionContextId } = around.world
  const { backendNodeId } = await session.send('DOM.getFrameOwner', { frameId }, { limitMs: 2_000 })
  const { object } = await session.send('DOM.resolveNode', { backendNodeId, executionContextId }, { limitMs: 2_000 })
  if (object.objectId === undefined) throw new DocumentGone('the frame is gone')
  return Place.parse(await around.world.callWith('place', object.objectId))
}

function absolute(place: Place, around: Place | undefined, isTop: boolean): Place {
  if (isTop) return { ...place, visible: true }
  const { box } = place
  const { x = 0, y = 0 } = around?.box ?? {}
  return {
    ...place,
    box: { ...box, x: box.x + x, y: box.y + y },
    visible: place.visible && around?.visible === true,
    covered: place.covered || around?.covered === true,
  }
}

const hostOf = (address: string): string => (URL.canParse(address) ? new URL(address).hostname.slice(0, 253) : '')

/** A control in the form of the contract; undefined for one that a page has made up. */
function controlOf(said: Record<string, unknown>, ref: string, frame: number, formsBefore: number, place: Place): Control | undefined {
  const box = Rect.safeParse(said.box)
  if (!box.success) return undefined
  const { x, y } = place.box
  const form = typeof said.form === 'number' && formsBefore + said.form < MAX_FORMS ? formsBefore + said.form : null
  const made = {
    ...said,
    ref,
    frame,
    form,
    visible: said.visible === true && place.visible,
    covered: said.covered === true || place.covered,
    box: { ...box.data, x: box.data.x + x, y: box.data.y + y },
  }
  const control = PageModel.shape.controls.element.safeParse(wellFormed(made))
  return control.success ? control.data : undefined
}

/** Texts that were cut in the middle of a character cannot be sent. */
const wellFormed = (made: object): object =>
  Object.fromEntries(
    Object.entries(made).map(([key, value]) => [
      key,
      typeof value === 'string'
        ? value.toWellFormed()
        : Array.isArray(value)
          ? value.map((one: unknown) => (typeof one === 'string' ? one.toWellFormed() : one))
          : (value as unknown),
    ]),
  )

function merge(tab: Tab, generation: number, read: { state: FrameState; said: FrameReading }[], frames: ReadFrame[], places: Place[]): PageModel {
  const top = read[0]!
  const controls: Control[] = []
  const forms: PageModel['forms'] = []
  const alerts: PageModel['alerts'] = tab.dialogs.map((said) => ({ text: said.replaceAll(/\s+/g, ' ').trim().toWellFormed(), by: 'role', control: null }))
  const headings: string[] = []
  let body = ''
  let bytes = 0
  read.forEach(({ said }, frame) => {
    const place = places[frame]!
    const formsBefore = forms.length
    for (const { host, path, method } of said.forms) if (forms.length < MAX_FORMS) forms.push({ frame, action_host: host, action_path: path, method })
    const refs = new Map<number, string>()
    said.controls.forEach((one, index) => {
      if (controls.length >= MAX_CONTROLS || bytes > MAX_MODEL_BYTES) return
      const ref = `${generation}.${frame}.${index}`
      const control = controlOf(one, ref, frame, formsBefore, place)
      if (!control) return
      bytes += Buffer.byteLength(JSON.stringify(control))
      if (bytes > MAX_MODEL_BYTES) return
      refs.set(index, ref)
      controls.push(control)
    })
    if (frame > 0 && !place.visible) return
    for (const { control, ...alert } of said.alerts)
      if (alerts.length < 20) alerts.push({ ...alert, control: control === null ? null : (refs.get(control) ?? null) })
    headings.push(...said.headings.slice(0, 30 - headings.length))
    body = `${body} ${said.body}`.trim().slice(0, MAX_BODY_TEXT)
  })
  const url = (top.state.unreachable ?? top.state.url).slice(0, 4096)
  const isError = top.state.unreachable !== undefined
  return {
    generation,
    url: url.toWellFormed(),
    host: isError ? hostOf(url) : hostOf(top.said.origin),
    title: top.said.title,
    language: top.said.language.toWellFormed(),
    status: isError || top.said.status === 0 ? null : top.said.status,
    error: isError ? (tab.error ?? 'net::ERR_FAILED') : null,
    http_auth: tab.hasAskedPassword,
    passkey_asked: read.some(({ said }) => said.passkeys > 0),
    frames: read.map(({ state, said }, index) => ({
      url: state.url.slice(0, 2048).toWellFormed(),
      host: hostOf(said.origin),
      parent: frames[index]!.parent,
      name: places[index]!.name.toWellFormed(),
      title: places[index]!.title.toWellFormed(),
      visible: places[index]!.visible,
      box: places[index]!.box,
    })),
    forms,
    controls,
    headings,
    alerts,
    has_dialog: read.some(({ said }, index) => said.dialogs > 0 && places[index]!.visible),
    body: body.toWellFormed(),
  }
}

/** The present state of a tab in short, to compare with later ones. @throws when its own document does not answer */
export async function pulseOf(tab: Tab): Promise<{ text: string; body: string; isParsed: boolean }> {
  const states = await tab.frames()
  const ask = async (state: FrameState) => Pulse.parse(await (await tab.world(state)).call('pulse', []))
  const [top, ...inner] = states
  if (!top) throw new DocumentGone('the page has no frame')
  const asked = inner.map((state) => ask(state).catch(() => undefined)) // a frame that hangs is left out
  const own = await ask(top)
  const pulses = [own, ...(await Promise.all(asked))]
  // Frames without fields are advertisements, counters and the like, which may change at any time.
  const texts = pulses.map((pulse, index) => {
    if (!pulse || (index > 0 && !pulse.hasFields)) return ''
    const document = index === 0 ? '' : `${states[index]!.id} ${states[index]!.loader} `
    return `${document}${pulse.fields} ${pulse.alerts} ${pulse.rest}`
  })
  return { text: [...texts, `${tab.dialogs.length}`].filter((one) => one !== '').join('|'), body: own.body, isParsed: own.isParsed }
}
