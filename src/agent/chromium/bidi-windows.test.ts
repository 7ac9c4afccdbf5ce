// Windows for BiDi clients, with a fake Chromium that behaves like the real one.
import { expect, test } from 'vitest'
import { windowsInOrder } from './bidi-windows.ts'

function pretendChromium(change: (bounds: Record<string, unknown>, window: Record<string, unknown>) => void) {
  const window: Record<string, unknown> = { left: 0, top: 0, width: 1920, height: 1080, windowState: 'maximized' }
  const sent: object[] = []
  const send = windowsInOrder(async (method, params) => {
    if (method === 'Browser.getWindowBounds') return { bounds: { ...window } }
    const { bounds } = params as { bounds: Record<string, unknown> }
    sent.push(bounds)
    change(bounds, window)
    return {}
  })
  return { send, sent, window }
}

test('a window in full screen is restored before it is resized', async () => {
  const { send, sent, window } = pretendChromium((bounds, is) => void Object.assign(is, bounds))
  await send('Browser.setWindowBounds', { windowId: 1, bounds: { windowState: 'normal', width: 800, height: 600 } })
  expect(sent).toEqual([{ windowState: 'normal' }, { width: 800, height: 600 }])
  expect(window).toMatchObject({ windowState: 'normal', width: 800, height: 600 })
})

test('the answer is sent after the window has changed', async () => {
  const { send, window } = pretendChromium((bounds, is) => void setTimeout(() => Object.assign(is, bounds), 50))
  await send('Browser.setWindowBounds', { windowId: 1, bounds: { windowState: 'fullscreen' } })
  expect(window.windowState).toBe('fullscreen')
})

test('a window that was maximized before full screen is restored twice', async () => {
  let under = 'maximized'
  const { send, sent, window } = pretendChromium((bounds, is) => {
    is.windowState = is.windowState === 'fullscreen' ? under : bounds.windowState
    under = 'normal'
  })
  window.windowState = 'fullscreen'
  await send('Browser.setWindowBounds', { windowId: 1, bounds: { windowState: 'normal' } })
  expect([window.windowState, sent.length]).toEqual(['normal', 2])
})

test('a window that does not reach the requested state is an error that names its real state', async () => {
  const { send } = pretendChromium((bounds, is) => void Object.assign(is, bounds, 'width' in bounds && { width: 500 }))
  await expect(send('Browser.setWindowBounds', { windowId: 1, bounds: { windowState: 'normal', width: 10 } })).rejects.toThrow(
    /did not become .*"width":10.*it is .*"width":500/,
  )
})
