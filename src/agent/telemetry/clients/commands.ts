// The data of a `cdp_command` event: only arguments that cannot contain a secret. For texts it has the number of characters, for lists the number of entries,
// for URLs the scheme. Other arguments are left out.
import type { CdpCommand } from '../contract.ts'
import { COMMAND_ID, DRAG_ITEMS } from '../limits.ts'

type Values = Record<string, unknown>
/** Reads arguments into the data. */
type Reader = (given: Values, data: Values) => void

interface Command {
  reads: readonly Reader[]
  /** Without these no event can be made. */
  needs: readonly string[]
}

/** A message of a client. */
export interface Said {
  id?: unknown
  method?: unknown
  params?: unknown
  sessionId?: unknown
}

const snake = (name: string): string => name.replaceAll(/(?<=[a-z])[A-Z]+(?![a-z])|[A-Z]/g, (capitals) => `_${capitals.toLowerCase()}`)
const isObject = (value: unknown): value is Values => typeof value === 'object' && value !== null && !Array.isArray(value)

const taken =
  (is: (value: unknown) => boolean) =>
  (...names: string[]): Reader => {
    const pairs = names.map((name) => [name, snake(name)] as const)
    return (given, data) => {
      for (const [from, to] of pairs) if (is(given[from])) data[to] = given[from]
    }
  }
const numbers = taken((value) => Number.isFinite(value))
const integers = taken((value) => Number.isSafeInteger(value))
const flags = taken((value) => typeof value === 'boolean')

const clipped = (id: string): string => id.slice(0, COMMAND_ID).toWellFormed()

/** Opaque identifiers. */
const ids = (...names: string[]): Reader => {
  const pairs = names.map((name) => [name, snake(name)] as const)
  return (given, data) => {
    for (const [from, to] of pairs) if (typeof given[from] === 'string') data[to] = clipped(given[from])
  }
}

/** One of the protocol's own words; any other text is "other". */
const word = (name: string, words: string, to = snake(name)): Reader => {
  const known = new Set(words.split(' '))
  return (given, data) => {
    const value = given[name]
    if (typeof value === 'string') data[to] = known.has(value) ? value : 'other'
  }
}

/** The number of characters of a text. */
const length =
  (name: string, to: string): Reader =>
  (given, data) => {
    const value = given[name]
    if (typeof value === 'string') data[to] = characters(value)
  }

/** The number of entries of a list. */
const count =
  (name: string, to: string): Reader =>
  (given, data) => {
    const value = given[name]
    if (Array.isArray(value)) data[to] = value.length
  }

/** Whether a text is given. */
const present =
  (name: string): Reader =>
  (given, data) =>
    void (data[`${snake(name)}_present`] = typeof given[name] === 'string' && given[name] !== '')

/** Arguments inside of an argument; their names begin with `prefix`. */
const inside =
  (name: string, prefix: string, ...reads: Reader[]): Reader =>
  (given, data) => {
    const value = given[name]
    if (!isObject(value)) return
    const found: Values = {}
    for (const read of reads) read(value, found)
    for (const [key, it] of Object.entries(found)) data[prefix + key] = it
  }

/** A scheme may be any text before a colon: in "name:password@host" it is the name. So only known schemes are included. */
const SCHEMES = new Set(
  'about blob chrome chrome-error chrome-extension chrome-untrusted data devtools file filesystem ftp http https javascript mailto tel view-source ws wss'.split(
    ' ',
  ),
)
const scheme: Reader = ({ url }, data) => {
  const found = typeof url === 'string' ? /^\s*([a-z][a-z0-9+.-]*):/i.exec(url.slice(0, COMMAND_ID))?.[1]?.toLowerCase() : undefined
  if (found !== undefined) data.url_scheme = SCHEMES.has(found) ? found : 'other'
}

/** Keys that type no character. */
const NAMED_KEYS = new Set([
  ...'Enter Tab Backspace Delete Insert Escape Home End PageUp PageDown ArrowUp ArrowDown ArrowLeft ArrowRight'.split(' '),
  ...'Shift Control Alt AltGraph Meta CapsLock NumLock ScrollLock Fn ContextMenu Pause PrintScreen Clear Cancel Help'.split(' '),
  ...'Cut Copy Paste Undo Redo Find Select ZoomIn ZoomOut BrowserBack BrowserForward BrowserRefresh BrowserHome BrowserSearch'.split(' '),
  ...Array.from({ length: 24 }, (_, index) => `F${index + 1}`),
])
const namedKey: Reader = ({ key }, data) => {
  if (typeof key === 'string' && NAMED_KEYS.has(key)) data.named_key = key
}

const download: Reader = ({ guid }, data) => {
  if (typeof guid === 'string') data.download_guid = clipped(guid)
}

/** Touches: their number, and the place of the first one. */
const touches: Reader = ({ touchPoints }, data) => {
  if (!Array.isArray(touchPoints)) return
  data.touch_point_count = touchPoints.length
  const first: unknown = touchPoints[0]
  if (isObject(first)) for (const read of TOUCH) read(first, data)
}
const TOUCH = [numbers('x', 'y', 'radiusX', 'radiusY', 'rotationAngle', 'force', 'tangentialPressure', 'tiltX', 'tiltY'), integers('twist')]

const MIME_CATEGORIES = new Set('text image audio video application font model multipart message'.split(' '))
const drag: Reader = ({ data: dragged }, data) => {
  if (!isObject(dragged)) return
  const { items } = dragged
  count('files', 'drag_file_count')(dragged, data)
  count('items', 'drag_item_count')(dragged, data)
  if (Number.isSafeInteger(dragged.dragOperationsMask)) data.drag_operations_mask = dragged.dragOperationsMask
  if (!Array.isArray(items)) return
  const kinds = items.slice(0, DRAG_ITEMS).map((item: unknown) => {
    const kind = isObject(item) && typeof item.mimeType === 'string' ? item.mimeType.slice(0, COMMAND_ID).split('/', 1)[0]!.trim().toLowerCase() : ''
    return MIME_CATEGORIES.has(kind) ? kind : 'other'
  })
  if (kinds.length > 0) data.drag_mime_categories = [...new Set(kinds)]
}

/** Which fields are filled: the values themselves are secrets. */
const filled: Reader = ({ card, address }, data) => {
  if (isObject(card)) data.mode = 'card'
  else if (isObject(address)) {
    data.mode = 'address'
    count('fields', 'address_field_count')(address, data)
  }
}

const MOUSE = 'mousePressed mouseReleased mouseMoved mouseWheel'
const BUTTONS = 'none left middle right back forward'
const GESTURES = 'default touch mouse'
const WINDOW_STATES = 'normal minimized maximized fullscreen'
const REFERRER_POLICIES = 'noReferrer noReferrerWhenDowngrade origin originWhenCrossOrigin sameOrigin strictOrigin strictOriginWhenCrossOrigin unsafeUrl'
const TRANSITIONS = 'link typed address_bar auto_bookmark auto_subframe manual_subframe generated auto_toplevel form_submit reload keyword keyword_generated'

const node = [ids('objectId'), integers('nodeId', 'backendNodeId')]
const size = integers('width', 'height')
const target = [ids('targetId')]
const reads = (...readers: Reader[]) => ({
  reads: readers,
  needs: [] as string[],
  needing: (...needs: string[]): Command => ({ reads: readers, needs }),
})

const COMMANDS: Record<CdpCommand, Command> = {
  'Input.dispatchMouseEvent': reads(
    word('type', MOUSE, 'event_type'),
    word('button', BUTTONS),
    word('pointerType', 'mouse pen'),
    integers('buttons', 'clickCount', 'modifiers', 'twist'),
    numbers('x', 'y', 'deltaX', 'deltaY', 'force', 'tangentialPressure', 'tiltX', 'tiltY'),
  ).needing('event_type'),
  'Input.dispatchKeyEvent': reads(
    word('type', 'keyDown keyUp rawKeyDown char', 'event_type'),
    flags('autoRepeat', 'isKeypad', 'isSystemKey'),
    integers('location', 'modifiers'),
    count('commands', 'command_count'),
    length('text', 'text_length'),
    namedKey,
  ).needing('event_type'),
  'Input.insertText': reads(length('text', 'text_length')).needing('text_length'),
  'Input.imeSetComposition': reads(length('text', 'text_length'), integers('selectionStart', 'selectionEnd', 'replacementStart', 'replacementEnd')).needing(
    'text_length',
  ),
  'Input.dispatchTouchEvent': reads(word('type', 'touchStart touchEnd touchMove touchCancel', 'event_type'), integers('modifiers'), touches).needing(
    'event_type',
    'touch_point_count',
  ),
  'Input.dispatchDragEvent': reads(word('type', 'dragEnter dragOver drop dragCancel', 'event_type'), numbers('x', 'y'), integers('modifiers'), drag).needing(
    'event_type',
  ),
  'Input.cancelDragging': reads(),
  'Input.emulateTouchFromMouseEvent': reads(
    word('type', MOUSE, 'event_type'),
    word('button', BUTTONS),
    integers('clickCount', 'modifiers'),
    numbers('x', 'y', 'deltaX', 'deltaY'),
  ).needing('event_type'),
  'Input.synthesizePinchGesture': reads(numbers('x', 'y', 'scaleFactor'), integers('relativeSpeed'), word('gestureSourceType', GESTURES)),
  'Input.synthesizeScrollGesture': reads(
    numbers('x', 'y', 'xDistance', 'yDistance', 'xOverscroll', 'yOverscroll'),
    integers('speed', 'repeatCount', 'repeatDelayMs'),
    flags('preventFling'),
    word('gestureSourceType', GESTURES),
  ),
  'Input.synthesizeTapGesture': reads(numbers('x', 'y'), integers('duration', 'tapCount'), word('gestureSourceType', GESTURES)),
  'DOM.setFileInputFiles': reads(count('files', 'file_count'), ...node).needing('file_count'),
  'DOM.focus': reads(...node),
  'DOM.scrollIntoViewIfNeeded': reads(...node, inside('rect', 'rect_', numbers('x', 'y', 'width', 'height'))),
  'Page.bringToFront': reads(),
  'Page.captureScreenshot': reads(
    word('format', 'jpeg png webp'),
    integers('quality'),
    flags('fromSurface', 'captureBeyondViewport', 'optimizeForSpeed'),
    inside('clip', 'clip_', numbers('x', 'y', 'width', 'height', 'scale')),
  ),
  'Page.captureSnapshot': reads(word('format', 'mhtml')),
  'Page.handleJavaScriptDialog': reads(flags('accept'), length('promptText', 'prompt_text_length')).needing('accept'),
  'Page.navigate': reads(scheme, ids('frameId'), present('referrer'), word('referrerPolicy', REFERRER_POLICIES), word('transitionType', TRANSITIONS)),
  'Page.navigateToHistoryEntry': reads(integers('entryId')).needing('entry_id'),
  'Page.reload': reads(flags('ignoreCache'), ids('loaderId'), length('scriptToEvaluateOnLoad', 'script_length')),
  'Page.printToPDF': reads(
    flags('landscape', 'displayHeaderFooter', 'printBackground', 'preferCSSPageSize', 'generateTaggedPDF', 'generateDocumentOutline'),
    numbers('scale', 'paperWidth', 'paperHeight', 'marginTop', 'marginBottom', 'marginLeft', 'marginRight'),
    present('pageRanges'),
    present('headerTemplate'),
    present('footerTemplate'),
    word('transferMode', 'ReturnAsBase64 ReturnAsStream'),
  ),
  'Page.startScreencast': reads(word('format', 'jpeg png'), integers('quality', 'maxWidth', 'maxHeight', 'everyNthFrame')),
  'Page.stopScreencast': reads(),
  'Page.stopLoading': reads(),
  'Page.close': reads(),
  'Page.setWebLifecycleState': reads(word('state', 'frozen active')).needing('state'),
  'Target.activateTarget': reads(...target).needing('target_id'),
  'Target.closeTarget': reads(...target).needing('target_id'),
  'Target.createTarget': reads(
    scheme,
    size,
    integers('left', 'top'),
    flags('enableBeginFrameControl', 'newWindow', 'background', 'forTab', 'hidden', 'focus'),
    ids('browserContextId'),
    word('windowState', WINDOW_STATES),
  ),
  'Target.createBrowserContext': reads(
    flags('disposeOnDetach'),
    present('proxyServer'),
    present('proxyBypassList'),
    count('originsWithUniversalNetworkAccess', 'universal_network_access_origin_count'),
  ),
  'Target.disposeBrowserContext': reads(ids('browserContextId')).needing('browser_context_id'),
  'Target.openDevTools': reads(...target, ids('panelId')).needing('target_id'),
  'Browser.cancelDownload': reads(download, ids('browserContextId')).needing('download_guid'),
  'Browser.close': reads(),
  'Browser.setWindowBounds': reads(integers('windowId'), inside('bounds', '', integers('left', 'top'), size, word('windowState', WINDOW_STATES))).needing(
    'window_id',
  ),
  'Browser.setContentsSize': reads(integers('windowId'), size).needing('window_id'),
  'Autofill.trigger': reads(integers('fieldId'), ids('frameId'), filled).needing('field_id'),
}

/** Whether this command makes events. */
export const isReported = (method: unknown): method is CdpCommand => typeof method === 'string' && Object.hasOwn(COMMANDS, method)

/** The data of a command's event; undefined when a required argument is missing or invalid. */
export function commandData(method: CdpCommand, { id, params, sessionId }: Said, connectionId: string): Values | undefined {
  const data: Values = { method, connection_id: connectionId }
  if (Number.isSafeInteger(id)) data.command_id = id
  if (typeof sessionId === 'string') data.session_id = clipped(sessionId)
  const command = COMMANDS[method]
  const given = isObject(params) ? params : {}
  for (const read of command.reads) read(given, data)
  return command.needs.every((name) => data[name] !== undefined) ? data : undefined
}

/** Number of characters as a person counts them, not UTF-16 units. */
function characters(text: string): number {
  let pairs = 0
  for (let at = 0; at < text.length - 1; at++) if ((text.charCodeAt(at) & 0xfc00) === 0xd800 && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00) pairs++
  return text.length - pairs
}
