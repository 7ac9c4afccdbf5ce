// The agent's code is compiled once (src/instances/local/agent-cache.ts).
import { execFileSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startCloud } from '../support/cloud.ts'
import { agentOf, processesOf } from '../support/inside.ts'

/** Tells whether V8, with the options of the agent, takes the compiled code of a file, and how many bytes that has. */
const TAKES = `
  const { readFileSync } = require('node:fs')
  const [file, compiled] = process.argv.slice(1)
  const cachedData = readFileSync(compiled)
  const source = "(function (require, module) { 'use strict'; " + readFileSync(file, 'latin1') + '\\n})'
  console.log(JSON.stringify([!new (require('node:vm').Script)(source, { filename: file, cachedData }).cachedDataRejected, cachedData.length]))`

test('an agent starts with compiled code that its Node takes, functions included', async () => {
  await using cloud = await startCloud({ COB_WARM_BROWSERS: '0' })
  const { session_id: id } = await cloud.client.browsers.create()
  const agent = agentOf(cloud, id)
  const { command } = processesOf(cloud, id).find(({ pid }) => pid === agent)!
  const options = command.split(' ').filter((word) => word.startsWith('--') && word !== '--argv0')
  const cache = join(
    cloud.dataDir,
    readdirSync(cloud.dataDir).find((name) => name.startsWith('agent-cache-'))!,
  )
  for (const [file, compiled, bytes] of [
    ['agent.cjs', 'agent.cjs.compiled', 1_000_000],
    ['node_modules/x11/index.cjs', 'index.cjs.compiled', 100_000],
  ] as const) {
    const said = execFileSync(process.execPath, [...options, '-e', TAKES, join(cache, 'program', file), join(cache, compiled)], {
      encoding: 'utf8',
      timeout: 10_000,
    })
    const [isTaken, size] = JSON.parse(said) as [boolean, number]
    expect(isTaken, file).toBe(true)
    expect(size, file).toBeGreaterThan(bytes)
  }
})
