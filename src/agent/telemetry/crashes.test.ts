// Events about the ends of programs.
import { EventEmitter } from 'node:events'
import { expect, test } from 'vitest'
import { assertEvent } from '../../../test/support/telemetry-schemas.ts'
import type { KeeperEvents } from '../chromium/keeper.ts'
import type { Envelope } from './contract.ts'
import { crashTeller, tellChromiumCrashes } from './crashes.ts'
import { EVENT_JSON } from '../../http/sse.ts'
import { EventBuffer } from './event-buffer.ts'

test('a Chromium that crashes, does not start again and is given up is told of each time', async () => {
  const buffer = new EventBuffer()
  await buffer.capture({ categories: ['system'], excluded_methods: [] })
  const browser = new EventEmitter<KeeperEvents>()
  tellChromiumCrashes(browser as never, crashTeller(buffer))
  browser.emit('chromium_crashed', 'ended with SIGKILL', 42)
  browser.emit('chromium_not_started')
  browser.emit('given_up', 'too often')
  buffer.close()
  const received: Envelope[] = []
  for await (const frame of buffer.stream(0, undefined, new AbortController().signal))
    received.push(assertEvent(JSON.parse((frame as unknown as { [EVENT_JSON]: string })[EVENT_JSON])))
  expect(received.map(({ event }) => event.data)).toEqual([
    { service_name: 'chromium', phase: 'running', pid: 42 },
    { service_name: 'chromium', phase: 'startup' },
    { service_name: 'chromium', phase: 'gave_up' },
  ])
})
