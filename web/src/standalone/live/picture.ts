// noVNC with another wheel. Its own loses movement: it drops the remainder at each notch, and sends at most one notch per event.
import RFB from 'novnc-core/rfb.js'
import { initLogging } from 'novnc-core/util/logging.js'
import { Notches } from './wheel.ts'

initLogging('error')

export class Picture extends RFB {
  readonly #across = new Notches()
  readonly #down = new Notches()

  /** noVNC calls this method. */
  _handleWheel(event: WheelEvent): void {
    if (this._rfbConnectionState !== 'connected' || this._viewOnly) return
    event.stopPropagation()
    event.preventDefault()
    const { left, top } = this._canvas.getBoundingClientRect()
    const [x, y] = [event.clientX - left, event.clientY - top]
    const held = RFB._convertButtonMask(event.buttons)
    // Buttons 4 to 7 are the wheel: up, down, left, right.
    const turn = (notches: number, back: number, ahead: number): void => {
      for (let count = Math.abs(notches); count > 0; count--) {
        this._handleMouseButton(x, y, held | (notches < 0 ? back : ahead))
        this._handleMouseButton(x, y, held)
      }
    }
    turn(this.#across.add(event.deltaX, event.deltaMode, event.timeStamp), 1 << 5, 1 << 6)
    turn(this.#down.add(event.deltaY, event.deltaMode, event.timeStamp), 1 << 3, 1 << 4)
  }
}
