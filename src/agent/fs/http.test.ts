// The files of a session over HTTP: ranges, headers, refusals in the middle of a body, and unfinished files.
import { readdirSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { serveFiles, type ServedFiles } from '../../../test/support/files.ts'
import { tempDir, treeOf } from '../../../test/support/trees.ts'

let served: ServedFiles
beforeAll(async () => void (served = await serveFiles()))
afterAll(() => served[Symbol.asyncDispose]())

describe('files over HTTP', () => {
  test('a refusal before the body is sent leaves the connection usable', async () => {
    using dir = tempDir()
    const socket = connect(served.port, '127.0.0.1')
    let answers = ''
    socket.on('data', (chunk: Buffer) => (answers += chunk.toString()))
    socket.write(`PUT /fs/write_file?path=${dir.path} HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n`)
    socket.write(Buffer.alloc(1_000_000))
    await expect.poll(() => answers).toContain('400 Bad Request')
    socket.write(Buffer.alloc(8_000_000))
    socket.write(`GET /fs/file_info?path=${dir.path} HTTP/1.1\r\nHost: x\r\n\r\n`)
    await expect.poll(() => answers, { timeout: 5_000 }).toContain('200 OK')
    socket.destroy()
  })

  test('ranges of a file have the right status and headers, HEAD reads nothing, and an unread answer keeps no file open', async () => {
    using dir = tempDir()
    const path = `${dir.path}/f`
    writeFileSync(path, 'x'.repeat(50_000_000))
    const get = (headers: Record<string, string>, method = 'GET') => fetch(`${served.url}/fs/read_file?path=${path}`, { method, headers })
    const part = await get({ range: 'bytes=5-9' })
    expect([part.status, part.headers.get('content-range'), part.headers.get('content-length'), await part.text()]).toEqual([
      206,
      'bytes 5-9/50000000',
      '5',
      'xxxxx',
    ])
    const none = await get({ range: 'bytes=50000000-' })
    expect([none.status, none.headers.get('content-range')]).toEqual([416, 'bytes */50000000'])
    expect(await none.json()).toMatchObject({ code: 'range_not_satisfiable' })
    const head = await get({}, 'HEAD')
    expect([head.status, head.headers.get('content-length'), head.headers.get('accept-ranges')]).toEqual([200, '50000000', 'bytes'])
    expect((await fetch(`${served.url}/fs/download_dir_zip?path=${dir.path}`, { method: 'HEAD' })).status).toBe(200)
    const left = await get({})
    await left.body!.cancel()
    await expect.poll(() => readdirSync('/proc/self/fd').length).toBeLessThan(60)
  })

  test('a file that is still being sent is not visible before it is complete', async () => {
    using dir = tempDir()
    const body = new ReadableStream({
      async start(controller) {
        controller.enqueue(new Uint8Array(100_000))
        await sleep(100)
        expect(treeOf(dir.path)).not.toHaveProperty('f')
        expect(((await (await fetch(`${served.url}/fs/list_files?path=${dir.path}`)).json()) as []).length).toBe(0)
        controller.close()
      },
    })
    const answer = await fetch(`${served.url}/fs/write_file?path=${dir.path}/f&mode=600`, { method: 'PUT', body, duplex: 'half' } as RequestInit)
    expect(answer.status).toBe(201)
    expect(Object.entries(treeOf(dir.path)).map(([name, text]) => [name, text.length])).toEqual([['f', 100_004]])
  })
})
