// Folders of processes that share a directory: who may take which.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { scratchDir } from '../../test/support/scratch.ts'
import { newId } from './ids.ts'
import { ownFolder } from './own-folder.ts'

let dir: string
beforeEach(() => {
  dir = scratchDir('cob-own-')
})
afterEach(() => rmSync(dir, { recursive: true, force: true }))

/** A process with a folder and a file in it. It lives until it is killed. */
async function elsewhere(name: string) {
  const url = new URL('own-folder.ts', import.meta.url).href
  const program = `const { ownFolder } = await import('${url}'); const { mkdirSync, writeFileSync } = await import('node:fs')
    const { path } = await ownFolder('${dir}', '${name}'); mkdirSync(path); writeFileSync(path + '/file', ''); console.log('made'); setInterval(() => {}, 1000)`
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', '--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(child.stdout, 'data')
  return {
    stop: () => child.kill('SIGSTOP'),
    async [Symbol.asyncDispose]() {
      if (child.signalCode !== null) return
      const exited = once(child, 'exit')
      child.kill('SIGKILL')
      await exited
    },
  }
}

test('what a killed process has left goes to one of those that ask for it, and a living one keeps its folder, also when it is stopped', async () => {
  const [dead, stopped] = [newId(), newId()]
  await using own = await ownFolder(dir, newId())
  await using another = await ownFolder(dir, newId())
  await using still = await elsewhere(stopped)
  await using killed = await elsewhere(dead)
  expect(await own.takeOver()).toEqual([])
  await killed[Symbol.asyncDispose]()
  still.stop()
  const taken = (await Promise.all([own.takeOver(), another.takeOver(), own.takeOver(), another.takeOver()])).flat()
  expect(taken).toEqual([expect.stringMatching(new RegExp(`/(${[own, another].map(({ path }) => path.slice(-24)).join('|')})\\.${dead}$`))])
  expect(readdirSync(taken[0]!)).toEqual(['file'])
  expect(readdirSync(dir).filter((name) => name.includes(dead) && name.endsWith('.sock'))).toEqual([])
  expect(existsSync(join(dir, `${stopped}.${stopped}`, 'file'))).toBe(true)
})

test('what a process has taken over and not done goes on to the next one, with its own', async () => {
  const [first, second] = [newId(), newId()]
  mkdirSync(join(dir, `${first}.${first}`))
  await using last = await ownFolder(dir, newId())
  {
    await using middle = await ownFolder(dir, second)
    expect(await middle.takeOver()).toEqual([join(dir, `${second}.${first}`)])
    mkdirSync(middle.path)
    writeFileSync(join(middle.path, 'file'), '')
    expect(await last.takeOver()).toEqual([])
  }
  expect((await last.takeOver()).map((path) => path.slice(-24)).sort()).toEqual([first, second].sort())
})

test('a process that ends leaves neither a socket nor an empty folder', async () => {
  const own = await ownFolder(dir, newId())
  mkdirSync(own.path)
  await own[Symbol.asyncDispose]()
  expect(readdirSync(dir)).toEqual([])
})
