// The bundle of the agent: its content, and how it finds everything else.
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { BUNDLE, X_CLIENT } from '../../agent/bundle-names.ts'
import { AGENT_FILE, bundleAgent } from './program.ts'

let folder: string
let agent: string
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'cob-program-'))
  await bundleAgent(folder, AbortSignal.timeout(60_000))
  agent = readFileSync(join(folder, BUNDLE), 'utf8')
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test("the agent is one file, and the X client beside it keeps a path by which a stack trace is known as its reader's (agent/guard.ts)", () => {
  expect(readdirSync(folder, { recursive: true }).toSorted()).toEqual([BUNDLE, AGENT_FILE, 'node_modules', 'node_modules/x11', X_CLIENT])
  expect(agent).toContain(`require("./${X_CLIENT}")`)
})

test('the files have only characters of one byte, so they are read as Latin-1 and take no second byte in memory', () => {
  for (const file of [BUNDLE, X_CLIENT]) expect(readFileSync(join(folder, file)).every((byte) => byte < 0x80)).toBe(true)
})

test('files beside a source file are found where a sandbox has them', () => {
  expect(agent).not.toMatch(/import\.meta\.(url|dirname|filename)/)
  for (const seen of [
    '"/opt/cob/src/agent/fs"',
    '"/opt/cob/src/agent/telemetry/capture"',
    '"file:///opt/cob/src/agent/chromium/bidi.ts"',
    '"file:///opt/cob/src/base/paths.ts"',
    '"/opt/cob/node_modules/@lydell/node-pty/index.js"',
  ])
    expect(agent).toContain(seen)
})

test("nothing imports Node's HTTP as a module: that would load a second HTTP client at every start (base/node-http.ts)", () => {
  // How the bundler writes an import: of names, and of the default or everything.
  expect(agent).not.toMatch(/import_(node_)?https?\d*=require\(|__toESM\(require\(["'](node:)?https?["']\)/)
})
