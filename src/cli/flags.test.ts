// The command's options for Node: the memory of its young objects.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { PACKAGE_DIR } from '../base/paths.ts'

/** Keeps its results for a moment, like many requests at once: V8 lets young objects grow to their limit. */
const FILL = `
  import v8 from 'node:v8'
  const kept = []
  for (let time = 0; time < 1_500_000; time++) kept[time % 200_000] = { time, text: String(time) }
  const { space_size: size } = v8.getHeapSpaceStatistics().find((space) => space.space_name === 'new_space')
  process.stderr.write('young ' + size + '\\n')
`

test('young objects have at most three times 8 MiB, which a flood of requests would fill and V8 would keep', () => {
  const env = { ...process.env, NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(FILL)}` }
  const said = execFileSync('/bin/sh', ['-c', `${join(PACKAGE_DIR, 'bin/cob')} --version 2>&1 >/dev/null`], { env, encoding: 'utf8' })
  // The command first asks Node for its version.
  const bytes = Number([...said.matchAll(/^young (\d+)$/gm)].at(-1)![1])
  expect(bytes).toBeGreaterThan(0)
  expect(bytes).toBeLessThanOrEqual(24 * 1024 * 1024)
})

test('the image of the service gives the same limit as the command', () => {
  const [command, image] = ['bin/cob', 'images/service.Dockerfile'].map(
    (file) => /--max-semi-space-size=\d+/.exec(readFileSync(join(PACKAGE_DIR, file), 'utf8'))?.[0],
  )
  expect([command, image]).toEqual(['--max-semi-space-size=8', '--max-semi-space-size=8'])
})
