// The parts of noVNC that the live view uses. noVNC has no types.
declare module 'novnc-core/rfb.js' {
  export default class RFB extends EventTarget {
    constructor(target: HTMLElement, channel: object, options: { shared: boolean })
    static _convertButtonMask(buttons: number): number
    viewOnly: boolean
    scaleViewport: boolean
    background: string
    focusOnClick: boolean
    protected _canvas: HTMLCanvasElement
    protected _rfbConnectionState: string
    protected _viewOnly: boolean
    sendKey(keysym: number, code: string | null, down: boolean): void
    protected _handleMouseButton(x: number, y: number, mask: number): void
  }
}
declare module 'novnc-core/util/logging.js' {
  export function initLogging(level: string): void
}
declare module 'novnc-core/util/browser.js' {
  export function isIOS(): boolean
  export function isMac(): boolean
}
declare module 'novnc-core/input/keyboard.js' {
  export default class Keyboard {
    constructor(target: HTMLElement)
    onkeyevent: (keysym: number, code: string, down: boolean) => void
    grab(): void
    ungrab(): void
  }
}
declare module 'novnc-core/input/keysym.js' {
  const keys: Record<'XK_Return' | 'XK_BackSpace' | 'XK_Control_L' | 'XK_Control_R', number>
  export default keys
}
declare module 'novnc-core/input/keysymdef.js' {
  const keysyms: { lookup(codePoint: number): number }
  export default keysyms
}
