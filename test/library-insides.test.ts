// The code uses private parts of Node and of packages where nothing public does the job. If a new version changes one of them, a test fails here by name, before it
// causes a fault in a session. To find the code, search for the name below src/.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { IncomingMessage } from 'node:http'
import { createRequire } from 'node:module'
import { createServer, Socket, type Server } from 'node:net'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { BrowsingContextImpl } from 'chromium-bidi/out/Default/gen/src/bidiMapper/modules/context/BrowsingContextImpl.js'
import { BrowsingContextProcessor } from 'chromium-bidi/out/Default/gen/src/bidiMapper/modules/context/BrowsingContextProcessor.js'
import { MapperCdpClient } from 'chromium-bidi/out/Default/gen/src/cdp/CdpClient.js'
import { spawn as spawnOnTerminal } from '@lydell/node-pty'
import { describe, expect, test } from 'vitest'
import { ZipFile } from 'yazl'
import * as z from 'zod'
import { PACKAGE_DIR } from '../src/base/paths.ts'

const modules = join(PACKAGE_DIR, 'node_modules')

describe('Node', () => {
  test('has the limit of a message in _readableState.highWaterMark, and obeys a lower one (base/pieces.ts)', () => {
    const message = new IncomingMessage(new Socket()) as IncomingMessage & { _readableState: { highWaterMark: number } }
    expect(message._readableState.highWaterMark).toBe(message.readableHighWaterMark)
    expect(message.push(Buffer.alloc(10))).toBe(true)
    message._readableState.highWaterMark = 5
    expect(message.readableHighWaterMark).toBe(5)
    expect(message.push(Buffer.alloc(1))).toBe(false)
  })

  test("has a server's descriptor in _handle.fd (instances/local/instance.ts)", async () => {
    const server = createServer()
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { fd } = (server as Server & { _handle: { fd: number } })._handle
    expect(existsSync(`/proc/self/fd/${fd}`)).toBe(true)
    server.close()
  })

  test('makes output to a pipe synchronous by _handle.setBlocking (agent/playwright/worker.ts, runner/loader.mjs)', async () => {
    const child = spawn(process.execPath, ['-e', 'process.stdout.write(typeof process.stdout._handle.setBlocking)'], { stdio: ['ignore', 'pipe', 'inherit'] })
    expect(await text(child.stdout)).toBe('function')
  })

  test("lets the process end while a child's output is open, by unref (instances/local/host-addresses.ts)", async () => {
    const child = spawn('/bin/true', [], { stdio: ['ignore', 'pipe', 'pipe'] })
    for (const stream of [child.stdout, child.stderr]) expect(stream).toHaveProperty('unref', expect.any(Function))
    await once(child, 'exit')
  })
})

test('node-pty has the fields fd and _socket (agent/process/pty.ts)', async () => {
  const terminal = spawnOnTerminal('/bin/true', [], {}) as unknown as { fd: number; _socket: Socket; onExit(done: () => void): void }
  expect(terminal.fd).toBeGreaterThan(2)
  expect(terminal._socket).toHaveProperty('destroyed', false)
  await new Promise<void>((resolve) => terminal.onExit(resolve))
})

test('yazl keeps its entries in an array that the writer walks through (agent/fs/zip.ts)', () => {
  const zip = new ZipFile() as ZipFile & { entries: unknown[] }
  zip.addEmptyDirectory('a')
  zip.addReadStreamLazy('b', {}, (give) => give(null, Readable.from([])))
  expect(zip.entries).toHaveLength(2)
  expect(readFileSync(join(modules, 'yazl/index.js'), 'utf8')).toContain('self.entries.forEach(')
})

test('zod describes schemas by _zod: kinds, what may be absent, discriminators (http/not-given.ts)', () => {
  const part = z.object({ kind: z.literal('a'), more: z.string().optional(), usual: z.string().default('x'), must: z.string() })
  expect(part._zod.def.type).toBe('object')
  const { more, usual, must } = part._zod.def.shape
  expect([more._zod.def.type, usual._zod.def.type, must._zod.def.type]).toEqual(['optional', 'default', 'string'])
  expect([more._zod.optin, usual._zod.optin, must._zod.optin].map((mark) => mark !== undefined)).toEqual([true, true, false])
  expect(part._zod.propValues?.kind).toEqual(new Set(['a']))
})

test('x11 has a stream for raw requests, and counts requests in seq_num (agent/display/x/keymap.ts)', () => {
  const PackStream = createRequire(import.meta.url)('x11/lib/framebuffer') as { prototype: object }
  expect(PackStream.prototype).toMatchObject({ put: expect.any(Function), submit: expect.any(Function) })
  const client = readFileSync(join(modules, 'x11/lib/xcore.js'), 'utf8')
  for (const part of ['this.seq_num = 0', 'this.pack_stream = pack_stream']) expect(client).toContain(part)
})

test('chromium-bidi has the parts that are mended (agent/chromium/bidi-mends.ts)', () => {
  expect(MapperCdpClient.prototype).toMatchObject({ sendCommand: expect.any(Function), on: expect.any(Function), off: expect.any(Function) })
  expect(BrowsingContextImpl).toHaveProperty('create', expect.any(Function))
  expect(BrowsingContextImpl.prototype).toHaveProperty('dispose', expect.any(Function))
  expect(BrowsingContextProcessor.prototype).toMatchObject({ create: expect.any(Function), activate: expect.any(Function) })
  // The patches fix faults of this version. For a newer version, check whether it still has them.
  expect(JSON.parse(readFileSync(join(modules, 'chromium-bidi/package.json'), 'utf8'))).toHaveProperty('version', '17.0.2')
})

// noVNC needs a browser to run, so this reads its source text.
test.each([
  'handleWheel: this._handleWheel.bind(this)',
  '_handleWheel(ev) {',
  '_handleMouseButton(x, y, bmask) {',
  'static _convertButtonMask(buttons) {',
  "this._canvas = document.createElement('canvas')",
  "this._rfbConnectionState === 'connected'",
  'this._viewOnly = viewOnly',
])('noVNC has "%s" (web/src/standalone/live/picture.ts)', (part) => {
  expect(readFileSync(join(modules, '@novnc/novnc/core/rfb.js'), 'utf8')).toContain(part)
})
