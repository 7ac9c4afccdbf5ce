// Replicas that share a data directory announce themselves at the same moment.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'

const TIMES = 1_000
const PROGRAM = `
const { announce, heldSockets, presenceIn } = await import(${JSON.stringify(join(import.meta.dirname, 'presence.ts'))})
const dir = process.argv[1]
for (let at = 0; at < ${TIMES}; at++) {
  await using held = await announce(dir)
  if (presenceIn(dir, heldSockets()) !== 'running') throw new Error('it does not run')
}
`

test('several processes that announce themselves for one directory, again and again, all succeed', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'cob-presence-'))
  try {
    const ends = Array.from({ length: 4 }, async () => {
      const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', '--input-type=module', '-e', PROGRAM, dir], {
        stdio: ['ignore', 'ignore', 'pipe'],
      })
      const [said, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')])
      return { said, code: code as number | null }
    })
    expect(await Promise.all(ends)).toEqual(Array.from({ length: 4 }, () => ({ said: '', code: 0 })))
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
})
