// Upload forms over real HTTP: the field names of every client, all files or none, and an interrupted upload leaves nothing.
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { serveFiles, type ServedFiles } from '../../../test/support/files.ts'
import { tempDir, treeOf } from '../../../test/support/trees.ts'
import { makeZip } from '../../../test/support/zips.ts'

let served: ServedFiles
beforeAll(async () => void (served = await serveFiles()))
afterAll(() => served[Symbol.asyncDispose]())

type Part = [name: string, value: string, filename?: string]
const BOUNDARY = 'x'.repeat(40)
const formOf = (parts: readonly Part[]): string =>
  `${parts.map(([name, value, filename]) => `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"${filename === undefined ? '' : `; filename="${filename}"`}\r\n\r\n${value}\r\n`).join('')}--${BOUNDARY}--\r\n`
const send = (path: string, body: string | Uint8Array): Promise<Response> =>
  fetch(served.url + path, { method: 'POST', headers: { 'content-type': `multipart/form-data; boundary=${BOUNDARY}` }, body: body as string })
const upload = (parts: readonly Part[]): Promise<Response> => send('/fs/upload', formOf(parts))
const problem = async (answer: Promise<Response>): Promise<string> => {
  const response = await answer
  return `${response.status} ${((await response.json()) as { message: string }).message}`
}

describe('uploads with a form', () => {
  test.each<[string, (dir: string) => Part[]]>([
    [
      'as the TypeScript SDK sends them',
      (dir) => [
        ['files[0][dest_path]', `${dir}/a`],
        ['files[0][file]', 'A', 'x'],
        ['files[1][dest_path]', `${dir}/d/b`],
        ['files[1][file]', 'B', 'y'],
      ],
    ],
    [
      'as the Python SDK sends them',
      (dir) => [
        ['files[][dest_path]', `${dir}/a`],
        ['files[][dest_path]', `${dir}/d/b`],
        ['files[][file]', 'A', 'x'],
        ['files[][file]', 'B', 'y'],
      ],
    ],
    [
      'with dots',
      (dir) => [
        ['files.0.file', 'A', 'x'],
        ['files.0.dest_path', `${dir}/a`],
        ['files[1].file', 'B', 'y'],
        ['files[1].dest_path', `${dir}/d/b`],
      ],
    ],
    [
      'with files before their paths',
      (dir) => [
        ['files[7][file]', 'B', 'y'],
        ['files[3][file]', 'A', 'x'],
        ['files[3][dest_path]', `${dir}//a/`],
        ['files[7][dest_path]', `${dir}/./d/b`],
      ],
    ],
  ])('%s', async (_, parts) => {
    using dir = tempDir()
    expect((await upload(parts(dir.path))).status).toBe(201)
    expect(treeOf(dir.path)).toEqual({ a: 'A 644', d: '/ 755', 'd/b': 'B 644' })
    expect(readdirSync(served.home)).toEqual([])
  })

  test('arrive complete when they are one thousand bytes larger than any buffer, and empty files arrive empty', async () => {
    using dir = tempDir()
    const large = 'abcdefg'.repeat(500_000)
    expect(
      (
        await upload([
          ['files[0][dest_path]', `${dir.path}/large`],
          ['files[0][file]', large, 'x'],
          ['files[1][dest_path]', `${dir.path}/empty`],
          ['files[1][file]', '', 'y'],
        ])
      ).status,
    ).toBe(201)
    expect(treeOf(dir.path)).toEqual({ large: `${large} 644`, empty: ' 644' })
  })

  const refused: [name: string, says: string, parts: (dir: string) => Part[]][] = [
    ['no parts', '400 files: ', () => []],
    [
      'an unknown part',
      '400 nonsense: ',
      (dir) => [
        ['files[0][dest_path]', `${dir}/a`],
        ['files[0][file]', 'A', 'x'],
        ['nonsense', '1'],
      ],
    ],
    [
      'a part of a file that is none',
      '400 files[0][mode]: ',
      (dir) => [
        ['files[0][dest_path]', `${dir}/a`],
        ['files[0][mode]', '644'],
      ],
    ],
    [
      'a file without a path',
      '400 files[1][dest_path]: ',
      (dir) => [
        ['files[0][dest_path]', `${dir}/n/a`],
        ['files[0][file]', 'A', 'x'],
        ['files[1][file]', 'B', 'y'],
      ],
    ],
    [
      'a path without a file',
      '400 files[1][file]: ',
      (dir) => [
        ['files[0][dest_path]', `${dir}/n/a`],
        ['files[0][file]', 'A', 'x'],
        ['files[1][dest_path]', `${dir}/b`],
      ],
    ],
    [
      'a relative path',
      '400 files[0][dest_path]: ',
      () => [
        ['files[0][dest_path]', 'a'],
        ['files[0][file]', 'A', 'x'],
      ],
    ],
    [
      'a path that goes up',
      '400 files[0][dest_path]: ',
      (dir) => [
        ['files[0][file]', 'A', 'x'],
        ['files[0][dest_path]', `${dir}/../a`],
      ],
    ],
    [
      'a path with U+0000',
      '400 files[0][dest_path]: ',
      (dir) => [
        ['files[0][dest_path]', `${dir}/a\0`],
        ['files[0][file]', 'A', 'x'],
      ],
    ],
    [
      'a path twice',
      '400 files[0][dest_path]: ',
      (dir) => [
        ['files[0][dest_path]', `${dir}/a`],
        ['files[0][dest_path]', `${dir}/b`],
      ],
    ],
    [
      'a file twice',
      '400 files[0][file]: ',
      (dir) => [
        ['files[0][dest_path]', `${dir}/a`],
        ['files[0][file]', 'A', 'x'],
        ['files[0][file]', 'B', 'x'],
      ],
    ],
    [
      'two files for one place',
      '400 files[1][dest_path]: ',
      (dir) => [
        ['files[0][dest_path]', `${dir}/a`],
        ['files[0][file]', 'A', 'x'],
        ['files[1][dest_path]', `${dir}/./link`],
        ['files[1][file]', 'B', 'y'],
      ],
    ],
    [
      'a file below another',
      '400 files[2][dest_path]: ',
      (dir) => [
        ['files[0][file]', 'A', 'x'],
        ['files[1][file]', 'B', 'y'],
        ['files[2][file]', 'C', 'z'],
        ['files[0][dest_path]', `${dir}/first`],
        ['files[1][dest_path]', `${dir}/a`],
        ['files[2][dest_path]', `${dir}/a/b/c`],
      ],
    ],
    [
      'text for a file',
      '400 files[0][file]: ',
      (dir) => [
        ['files[0][dest_path]', `${dir}/a`],
        ['files[0][file]', 'A'],
      ],
    ],
    ['a file for a path', '400 files[0][dest_path]: ', (dir) => [['files[0][dest_path]', `${dir}/a`, 'name']]],
    [
      'a folder in the place of the last',
      '400 files[1][dest_path]: ',
      (dir) => [
        ['files[0][dest_path]', `${dir}/n/a`],
        ['files[0][file]', 'A', 'x'],
        ['files[1][file]', 'B', 'y'],
        ['files[1][dest_path]', `${dir}/folder`],
      ],
    ],
    [
      'a place below a file',
      '400 files[0][file]: ',
      (dir) => [
        ['files[0][dest_path]', `${dir}/kept/x`],
        ['files[0][file]', 'A', 'x'],
      ],
    ],
    ['a prototype for a name', '400 files[__proto__][file]: ', () => [['files[__proto__][file]', 'A', 'x']]],
  ]
  test.each(refused)('with %s are refused, and nothing changes', async (_, says, parts) => {
    using dir = tempDir()
    writeFileSync(`${dir.path}/kept`, 'kept')
    mkdirSync(`${dir.path}/folder`)
    symlinkSync('a', `${dir.path}/link`)
    const before = treeOf(dir.path)
    expect(await problem(upload(parts(dir.path)))).toContain(says)
    expect(treeOf(dir.path)).toEqual(before)
    expect(readdirSync(served.home)).toEqual([])
  })

  test.each([
    ['that ends in a file', -60],
    ['that ends in its last boundary', -10],
    ['that ends in a head', 70],
    ['of nothing', -100_000],
  ])('with a form %s are refused and leave nothing', async (_, length) => {
    using dir = tempDir()
    const form = formOf([
      ['files[0][dest_path]', `${dir.path}/n/a`],
      ['files[0][file]', 'A'.repeat(1_000), 'x'],
    ])
    expect(await problem(send('/fs/upload', form.slice(0, length)))).toMatch(/^400 /)
    expect([...readdirSync(dir.path), ...readdirSync(served.home)]).toEqual([])
  })

  test('that are not a form are refused', async () => {
    expect(await problem(fetch(`${served.url}/fs/upload`, { method: 'POST', body: '{}', headers: { 'content-type': 'application/json' } }))).toContain(
      '400 content-type',
    )
    expect(await problem(fetch(`${served.url}/fs/upload`, { method: 'POST', body: 'x', headers: { 'content-type': 'multipart/form-data' } }))).toContain(
      '400 content-type',
    )
  })

  test.each(['known first', 'told last'])('leave nothing if the caller leaves in the middle (path %s)', async (order) => {
    using dir = tempDir()
    const socket = connect(served.port, '127.0.0.1')
    socket.on('error', () => {})
    const path = `--${BOUNDARY}\r\nContent-Disposition: form-data; name="files[0][dest_path]"\r\n\r\n${dir.path}/n/a\r\n`
    const file = `--${BOUNDARY}\r\nContent-Disposition: form-data; name="files[0][file]"; filename="x"\r\n\r\n`
    socket.write(`POST /fs/upload HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=${BOUNDARY}\r\nContent-Length: 9000000\r\n\r\n`)
    socket.write((order === 'known first' ? path : '') + file + 'A'.repeat(500_000))
    const where = order === 'known first' ? `${dir.path}/n` : served.home
    await expect.poll(() => readdirSync(where)).toHaveLength(1)
    socket.destroy()
    await expect.poll(() => [...readdirSync(dir.path), ...readdirSync(served.home)]).toEqual([])
  })
})

describe('uploads of a zip archive', () => {
  const zip = makeZip([{ name: 'd/f', content: 'text' }]).toString('latin1')
  const sendZip = (parts: readonly Part[]) => send('/fs/upload_zip', Buffer.from(formOf(parts), 'latin1'))

  test.each(['before', 'after'])('are unpacked if the path comes %s the archive', async (order) => {
    using dir = tempDir()
    const parts: Part[] = [
      ['dest_path', `${dir.path}/to`],
      ['zip_file', zip, 'a.zip'],
    ]
    expect((await sendZip(order === 'before' ? parts : parts.toReversed())).status).toBe(201)
    expect(treeOf(dir.path)).toEqual({ to: '/ 755', 'to/d': '/ 755', 'to/d/f': 'text 644' })
    expect(readdirSync(served.home)).toEqual([])
  })

  test.each<[string, Part[]]>([
    ['dest_path', [['zip_file', zip, 'a.zip']]],
    ['zip_file', [['dest_path', '/tmp/nowhere-at-all']]],
    [
      'zip_file',
      [
        ['dest_path', '/tmp/nowhere-at-all'],
        ['zip_file', 'no zip', 'a.zip'],
      ],
    ],
    [
      'zip_file',
      [
        ['dest_path', '/tmp/nowhere-at-all'],
        ['zip_file', zip],
      ],
    ],
    [
      'dest_path',
      [
        ['dest_path', 'relative'],
        ['zip_file', zip, 'a.zip'],
      ],
    ],
    [
      'dest_path',
      [
        ['dest_path', '/a'],
        ['dest_path', '/b'],
      ],
    ],
    [
      'zip_file',
      [
        ['zip_file', zip, 'a'],
        ['zip_file', zip, 'b'],
      ],
    ],
    ['more', [['more', 'x']]],
  ])('are refused, and the error names %s', async (field, parts) => {
    expect(await problem(sendZip(parts))).toContain(`400 ${field}: `)
    expect(readdirSync(served.home)).toEqual([])
  })
})
