// Makes programs reload the key map. X notifies a program that uses XKB of a changed map only when the program asked for it, and Chromium did not.
// But all of them reload the map when another keyboard becomes active.
import type { XConnection } from './x11.ts'

/** XInput: a keyboard that belongs to a master, XI2's XISlaveKeyboard. */
const SLAVE_KEYBOARD = 4
/** XInput's DeviceKeyRelease, as an offset from the extension's first event. */
const DEVICE_KEY_RELEASE = 2

/**
 * Resolves with a function that announces a changed key map: it makes the server's other keyboard active for a moment, by releasing a key there that
 * is not down. Programs get no event for that release.
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
