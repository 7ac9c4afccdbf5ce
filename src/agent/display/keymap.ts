// Making programs read the key map anew. X tells programs that use XKB, as Chromium does, of a changed map only when they asked
// for it, and Chromium did not; but all of them read it when another keyboard comes into use.
import type { XConnection } from './x11.ts'

/** XInput: a keyboard that belongs to a master, XI2's XISlaveKeyboard. */
const SLAVE_KEYBOARD = 4
/** XInput's DeviceKeyRelease, behind the extension's first event. */
const DEVICE_KEY_RELEASE = 2

/**
 * Resolves with what announces a changed key map: for a moment the server's other keyboard is in use. It lets go of a key
 * that is not down, which nobody is told of.
 */
export async function openAnnouncer({ xinput, xtest, ask, minKeycode, x }: XConnection): Promise<() => void> {
  const devices = await ask<{ deviceId: number; use: number; name: string }[]>((done) => xinput.XIQueryDevice(0, done))
  const other = devices.find(({ use, name }) => use === SLAVE_KEYBOARD && !name.includes('XTEST'))
  if (!other) throw new Error('the X server has no keyboard of its own')
  return () => {
    // The request that xtest.FakeInput makes, with the device in its last byte (XTEST protocol 2.2, XTestFakeDeviceKeyEvent).
    const request = Buffer.alloc(36)
    request.writeUInt8(xtest.majorOpcode, 0)
    request.writeUInt8(2, 1)
    request.writeUInt16LE(9, 2)
    request.writeUInt8(xinput.firstEvent + DEVICE_KEY_RELEASE, 4)
    request.writeUInt8(minKeycode, 5)
    request.writeUInt8(other.deviceId, 35)
    x.seq_num++
    x.pack_stream.put(request)
    x.pack_stream.submit()
    xtest.FakeInput(xtest.KeyRelease, minKeycode, 0, 0, 0, 0)
  }
}
