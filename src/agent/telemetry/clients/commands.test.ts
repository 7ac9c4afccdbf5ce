// Events of commands: the arguments that the contract includes, and never a text.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { assertEvent } from '../../../../test/support/telemetry-schemas.ts'
import { CDP_COMMANDS, type CdpCommand } from '../contract.ts'
import { commandData, isReported } from './commands.ts'

const CANARY = 'hunter2-canary'

/** Every argument in the protocol for each command, with texts as a secret. Those in `IDS` are identifiers, which are included. */
const T = CANARY
const ARGUMENTS: Record<CdpCommand, Record<string, unknown>> = {
  'Input.dispatchMouseEvent': { type: T, x: 1, y: 2.5, modifiers: 1, timestamp: 1, button: T, buttons: 1, clickCount: 2, force: 0.5, tangentialPressure: 0, tiltX: 1, tiltY: 2, twist: 3, deltaX: 4, deltaY: 5, pointerType: T }, // prettier-ignore
  'Input.dispatchKeyEvent': { type: T, modifiers: 1, timestamp: 1, text: T, unmodifiedText: T, keyIdentifier: T, code: T, key: T, windowsVirtualKeyCode: 65, nativeVirtualKeyCode: 65, autoRepeat: true, isKeypad: false, isSystemKey: false, location: 1, commands: [T, T] }, // prettier-ignore
  'Input.insertText': { text: T },
  'Input.imeSetComposition': { text: T, selectionStart: 0, selectionEnd: 1, replacementStart: 2, replacementEnd: 3 },
  'Input.dispatchTouchEvent': { type: T, touchPoints: [{ x: 1, y: 2, radiusX: 3, radiusY: 4, rotationAngle: 5, force: 1, tangentialPressure: 0, tiltX: 1, tiltY: 1, twist: 1, id: T }, {}], modifiers: 2, timestamp: 3 }, // prettier-ignore
  'Input.dispatchDragEvent': { type: T, x: 1, y: 2, data: { items: [{ mimeType: T, data: T, title: T, baseURL: T }, { mimeType: `text/${T}`, data: T }], files: [T], dragOperationsMask: 1 }, modifiers: 0 }, // prettier-ignore
  'Input.cancelDragging': {},
  'Input.emulateTouchFromMouseEvent': { type: T, x: 1, y: 2, button: T, timestamp: 1, deltaX: 1, deltaY: 1, modifiers: 1, clickCount: 1 },
  'Input.synthesizePinchGesture': { x: 1, y: 2, scaleFactor: 1.5, relativeSpeed: 800, gestureSourceType: T },
  'Input.synthesizeScrollGesture': { x: 1, y: 2, xDistance: 1, yDistance: 2, xOverscroll: 3, yOverscroll: 4, preventFling: true, speed: 5, gestureSourceType: T, repeatCount: 1, repeatDelayMs: 2, interactionMarkerName: T }, // prettier-ignore
  'Input.synthesizeTapGesture': { x: 1, y: 2, duration: 50, tapCount: 2, gestureSourceType: T },
  'DOM.setFileInputFiles': { files: [T, T], nodeId: 1, backendNodeId: 2, objectId: 'object' },
  'DOM.focus': { nodeId: 1, backendNodeId: 2, objectId: 'object' },
  'DOM.scrollIntoViewIfNeeded': { nodeId: 1, backendNodeId: 2, objectId: 'object', rect: { x: 1, y: 2, width: 3, height: 4 } },
  'Page.bringToFront': {},
  'Page.captureScreenshot': { format: T, quality: 80, clip: { x: 1, y: 2, width: 3, height: 4, scale: 1 }, fromSurface: true, captureBeyondViewport: false, optimizeForSpeed: true }, // prettier-ignore
  'Page.captureSnapshot': { format: T },
  'Page.handleJavaScriptDialog': { accept: true, promptText: T },
  'Page.navigate': { url: `https://${T}:${T}@${T}.example/${T}?${T}#${T}`, referrer: T, transitionType: T, frameId: 'frame', referrerPolicy: T },
  'Page.navigateToHistoryEntry': { entryId: 3 },
  'Page.reload': { ignoreCache: true, scriptToEvaluateOnLoad: T, loaderId: 'loader' },
  'Page.printToPDF': { landscape: true, displayHeaderFooter: true, printBackground: true, scale: 1, paperWidth: 8.5, paperHeight: 11, marginTop: 1, marginBottom: 1, marginLeft: 1, marginRight: 1, pageRanges: T, headerTemplate: T, footerTemplate: T, preferCSSPageSize: true, transferMode: T, generateTaggedPDF: true, generateDocumentOutline: true }, // prettier-ignore
  'Page.startScreencast': { format: T, quality: 1, maxWidth: 2, maxHeight: 3, everyNthFrame: 4 },
  'Page.stopScreencast': {},
  'Page.stopLoading': {},
  'Page.close': {},
  'Page.setWebLifecycleState': { state: T },
  'Target.activateTarget': { targetId: 'target' },
  'Target.closeTarget': { targetId: 'target' },
  'Target.createTarget': { url: `${T}:${T}@host`, left: 1, top: 2, width: 3, height: 4, windowState: T, browserContextId: 'context', enableBeginFrameControl: false, newWindow: true, background: true, forTab: false, hidden: false, focus: true }, // prettier-ignore
  'Target.createBrowserContext': { disposeOnDetach: true, proxyServer: T, proxyBypassList: T, originsWithUniversalNetworkAccess: [T] },
  'Target.disposeBrowserContext': { browserContextId: 'context' },
  'Target.openDevTools': { targetId: 'target', panelId: 'console' },
  'Browser.cancelDownload': { guid: 'guid', browserContextId: 'context' },
  'Browser.close': {},
  'Browser.setWindowBounds': { windowId: 1, bounds: { left: 1, top: 2, width: 3, height: 4, windowState: T } },
  'Browser.setContentsSize': { windowId: 1, width: 2, height: 3 },
  'Autofill.trigger': { fieldId: 1, frameId: 'frame', card: { number: T, name: T, expiryMonth: T, expiryYear: T, cvc: T } },
}

const reported = (method: CdpCommand, params: unknown = ARGUMENTS[method]) => {
  const data = commandData(method, { id: 7, sessionId: 'session', params }, 'connection')
  if (data) assertEvent({ seq: 1, event: { type: 'cdp_command', category: 'control', ts: 1, source: { kind: 'kernel_api' }, data } })
  return data
}

describe.each(CDP_COMMANDS)('%s', (method) => {
  test('is told as the contract has it, and none of its texts is in what is told', () => {
    const data = reported(method)!
    expect(data).toMatchObject({ method, command_id: 7, session_id: 'session', connection_id: 'connection' })
    expect(JSON.stringify(data)).not.toContain('canary')
  })

  test('has no text either in arguments of another kind, or that the protocol does not have', () => {
    const wrong = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(wrong)
      if (typeof value === 'object' && value !== null)
        return { ...Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, wrong(inner)])), more: T }
      return typeof value === 'string' ? [{ [T]: T }] : T
    }
    const data = reported(method, { ...(wrong(ARGUMENTS[method]) as object), more: T, [T]: T })
    expect(JSON.stringify(data ?? {})).not.toContain('canary')
  })

  test('is told as the contract has it whatever its arguments are, or not at all', () => {
    const names = Object.keys(ARGUMENTS[method])
    const value = fc.oneof(fc.jsonValue(), fc.constantFrom(...Object.values(ARGUMENTS[method]), null))
    const params = fc.dictionary(names.length > 0 ? fc.constantFrom(...names) : fc.string(), value)
    fc.assert(
      fc.property(fc.oneof(params, fc.jsonValue()), (given) => void reported(method, given)),
      { numRuns: 50 },
    )
  })
})

test('words of the protocol are kept', () => {
  expect(reported('Input.dispatchMouseEvent', { type: 'mousePressed', button: 'left', x: 1, y: 2, clickCount: 2, pointerType: 'pen' })).toEqual({
    method: 'Input.dispatchMouseEvent',
    command_id: 7,
    session_id: 'session',
    connection_id: 'connection',
    event_type: 'mousePressed',
    button: 'left',
    click_count: 2,
    pointer_type: 'pen',
    x: 1,
    y: 2,
  })
  expect(reported('Page.navigate', { url: 'HTTPS://user:pw@example.com/', referrer: 'https://a.example', transitionType: 'typed' })).toMatchObject({
    url_scheme: 'https',
    referrer_present: true,
    transition_type: 'typed',
  })
  expect(reported('Input.dispatchDragEvent', ARGUMENTS['Input.dispatchDragEvent'])).toMatchObject({
    event_type: 'other',
    drag_item_count: 2,
    drag_file_count: 1,
    drag_mime_categories: ['other', 'text'],
  })
  expect(reported('Autofill.trigger', { fieldId: 1, address: { fields: [{ name: T, value: T }] } })).toMatchObject({ mode: 'address', address_field_count: 1 })
})

test('a key that types is counted, one that commands is named', () => {
  expect(reported('Input.dispatchKeyEvent', { type: 'keyDown', key: 'a', code: 'KeyA', text: 'a' })).not.toHaveProperty('named_key')
  expect(reported('Input.dispatchKeyEvent', { type: 'keyDown', key: 'a', code: 'KeyA', text: 'a' })).toHaveProperty('text_length', 1)
  expect(reported('Input.dispatchKeyEvent', { type: 'rawKeyDown', key: 'Enter' })).toMatchObject({ named_key: 'Enter' })
})

test('texts are counted in characters', () => {
  expect(reported('Input.insertText', { text: 'añ😀漢' })).toHaveProperty('text_length', 4)
})

test('identifiers are cut to 128 characters', () => {
  const long = 'x'.repeat(1000)
  const data = commandData('Target.closeTarget', { id: 1, sessionId: long, params: { targetId: long } }, 'connection')
  expect(data).toMatchObject({ session_id: 'x'.repeat(128), target_id: 'x'.repeat(128) })
})

test('a command without an argument that it needs is not told', () => {
  expect(reported('Input.insertText', {})).toBeUndefined()
  expect(reported('Page.navigateToHistoryEntry', { entryId: 'x' })).toBeUndefined()
})

test('commands of libraries are not told', () => {
  for (const method of ['Runtime.evaluate', 'Target.setAutoAttach', 'toString', 'constructor', undefined, 1]) expect(isReported(method)).toBe(false)
})
