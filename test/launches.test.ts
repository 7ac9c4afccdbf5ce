// Cob's Chromium behaves as clients expect: each flag and feature with which Playwright, Puppeteer and ChromeDriver launch it is accepted, or refused with a reason.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { chromium } from 'playwright-core'
import puppeteer from 'puppeteer-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { chromiumFlags } from '../src/agent/chromium/flags.ts'
import { within } from '../src/base/wait.ts'
import { FEATURES_OFF, FEATURES_ON, FLAGS, type Verdict } from './data/launches.ts'

interface Launch {
  flags: Set<string>
  off: Set<string>
  on: Set<string>
}

/** The flags and features of a command line. When a flag is repeated, Chromium uses the last value. */
function launchOf(args: readonly string[]): Launch {
  const flags = args.filter((arg) => arg.startsWith('--')).map((arg) => arg.split('=')[0]!)
  const listed = (flag: string) => {
    const value = args.findLast((arg) => arg.startsWith(`${flag}=`))?.slice(flag.length + 1)
    // A feature may have parameters after its name.
    return new Set(value?.split(',').map((name) => name.split(':')[0]!) ?? [])
  }
  const lists = ['--disable-features', '--enable-features']
  return { flags: new Set(flags.filter((flag) => !lists.includes(flag))), off: listed('--disable-features'), on: listed('--enable-features') }
}

const union = (launches: readonly Launch[], part: keyof Launch): string[] => [...new Set(launches.flatMap((launch) => [...launch[part]]))].toSorted()

const DRIVER_MS = 20_000

let dir: string
let others: Launch[]

/** A program that writes its arguments to a file and ends. */
function recorder(): { program: string; args: () => string[] } {
  const program = join(dir, 'chromium')
  const noted = join(dir, 'args')
  writeFileSync(program, `#!/bin/sh\nprintf '%s\\n' "$@" > ${noted}\nexit 1\n`, { mode: 0o755 })
  return { program, args: () => readFileSync(noted, 'utf8').trimEnd().split('\n') }
}

async function playwrightLaunch(): Promise<Launch> {
  const { program, args } = recorder()
  await expect(chromium.launch({ executablePath: program, headless: false, chromiumSandbox: true })).rejects.toThrow()
  return launchOf(args())
}

async function chromeDriverLaunch(): Promise<Launch> {
  const { program, args } = recorder()
  const driver = spawn('chromedriver', ['--port=0'], { stdio: ['ignore', 'pipe', 'ignore'] })
  try {
    const listening = Promise.withResolvers<string>()
    driver.on('error', listening.reject)
    createInterface({ input: driver.stdout }).on('line', (line) => {
      const port = /started successfully on port (\d+)/.exec(line)?.[1]
      if (port) listening.resolve(port)
    })
    const port = await within('ChromeDriver', DRIVER_MS, listening.promise)
    const response = await fetch(`http://127.0.0.1:${port}/session`, {
      method: 'POST',
      body: JSON.stringify({ capabilities: { alwaysMatch: { 'goog:chromeOptions': { binary: program } } } }),
      signal: AbortSignal.timeout(DRIVER_MS),
    })
    expect(await response.text()).toContain('session not created')
    return launchOf(args())
  } finally {
    const ended = once(driver, 'close')
    driver.kill()
    await ended
  }
}

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'cob-launches-'))
  const puppeteerLaunch = launchOf(await puppeteer.defaultArgs({ browser: 'chrome', headless: false }))
  others = [await playwrightLaunch(), puppeteerLaunch, await chromeDriverLaunch()]
})
afterAll(() => rmSync(dir, { recursive: true, force: true }))

describe.each([
  ['flags', FLAGS],
  ['off', FEATURES_OFF],
  ['on', FEATURES_ON],
] as const)('%s of other launches', (part, table: Readonly<Record<string, Verdict>>) => {
  test('are in the table, each of them, and nothing else is', () => expect(Object.keys(table).toSorted()).toEqual(union(others, part)))

  test.each([
    ['a session', false],
    ['a session with stealth', true],
  ])('that are taken are those of %s', (_name, asPerson) => {
    const ours = launchOf(chromiumFlags({ width: 1, height: 1 }, asPerson, []))[part]
    const wanted = Object.keys(table).filter((name) => table[name] === 'taken' || (table[name] === 'programs' && !asPerson))
    expect(Object.keys(table).filter((name) => ours.has(name))).toEqual(wanted)
  })
})
