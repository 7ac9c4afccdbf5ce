// Requests that are refused before a program starts, and the command lines of the others.
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { commandOf } from './command.ts'

let dir: string
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'cob-command-'))
  mkdirSync(join(dir, 'bin'))
  mkdirSync(join(dir, 'folder'))
  for (const name of ['tool', 'bin/tool2']) {
    writeFileSync(join(dir, name), '#!/bin/sh\n')
    chmodSync(join(dir, name), 0o755)
  }
  writeFileSync(join(dir, 'text'), 'x', { mode: 0o644 })
})
afterAll(() => rmSync(dir, { recursive: true, force: true }))

const asked = { args: [], env: {}, as_root: false }
const defaults = () => ({ env: { PATH: '/usr/bin:/bin', A: '1', USER: 'kernel' }, cwd: dir })
const of = (more: object) => commandOf({ ...asked, command: 'true', ...more }, defaults())

test('a program is found like execvp does: by its path, relative to cwd, or in the PATH that the program will have', () => {
  expect(of({ command: '/bin/sh', args: ['-c', 'x'] })).toEqual({ line: ['/bin/sh', '-c', 'x'], env: defaults().env, cwd: dir })
  expect(of({ command: './tool' }).line).toEqual(['./tool'])
  expect(of({ command: 'bin/tool2' }).line).toEqual(['bin/tool2'])
  expect(of({ command: '../tool', cwd: join(dir, 'bin') }).cwd).toBe(join(dir, 'bin'))
  expect(of({ command: 'tool2', env: { PATH: `/nothing:${dir}/bin` } }).env.PATH).toBe(`/nothing:${dir}/bin`)
  expect(of({ command: 'tool', env: { PATH: '' } }).line).toEqual(['tool'])
})

test.each([
  [{ command: 'no-such-program' }, /^command: there is no program "no-such-program" in PATH$/],
  [{ command: 'echo hi' }, /^command: .*not run through a shell/],
  [{ command: './nothing' }, /^command: there is no program ".\/nothing"$/],
  [{ command: './text' }, /^command: .*text" is not executable$/],
  [{ command: './folder' }, /^command: there is no program/],
  [{ command: '..' }, /^command: there is no program/],
  [{ cwd: '/no/such/folder' }, /^cwd: there is no folder/],
  [{ cwd: '/etc/passwd' }, /^cwd: there is no folder/],
  [{ args: ['x', 'é'.repeat(70_000)] }, /^args\.1: is longer than 131071 bytes/],
  [{ env: { BIG: 'x'.repeat(131_070) } }, /^env\.BIG: is longer/],
  [{ as_user: 'no-such-user' }, /^as_user: /],
])('refused, and the error names the field: %o', (more, words) => {
  expect(() => of(more)).toThrow(words)
})

test('another user runs in a user namespace; the user kernel does not', () => {
  expect(of({ as_root: true }).line).toEqual(['/usr/bin/unshare', '--user', '--map-user=0', '--map-group=0', '--', 'true'])
  expect(of({ as_user: '1234:55' }).line.slice(2, 4)).toEqual(['--map-user=1234', '--map-group=55'])
  expect(of({ as_user: '1000' }).line).toEqual(['true'])
  expect(of({ as_user: '1000:1000' }).line).toEqual(['true'])
  expect(of({ as_root: true }).env).toEqual({ USER: 'root', LOGNAME: 'root', HOME: '/root', A: '1', PATH: '/usr/bin:/bin:/usr/sbin:/sbin' })
})

test("variables are those of the session, overridden by the caller's", () => {
  expect(of({ env: { A: '2', B: '3' } }).env).toEqual({ PATH: '/usr/bin:/bin', USER: 'kernel', A: '2', B: '3' })
})
