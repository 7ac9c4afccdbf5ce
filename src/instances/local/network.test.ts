// The plan of an instance's network. test/e2e tests that the addresses do not answer.
import { expect, test } from 'vitest'
import { planNetwork } from './network.ts'

/** Alibaba; Oracle; link-local; Amazon, Google and Scaleway by IPv6. */
const METADATA = [
  ['100.100.100.200/32', '192.0.0.192/32', '169.254.0.0/16'],
  ['fd00:ec2::254/128', 'fd20:ce::254/128', 'fd00:42::42/128'],
] as const

test('closes the metadata services of clouds, also those that are not link-local', () => {
  const { pasta, batch } = planNetwork(false)
  const closed = [...(pasta.includes('-6') ? [] : METADATA[0]), ...(pasta.includes('-4') ? [] : METADATA[1])]
  for (const range of pasta.length === 0 ? [] : closed) expect(batch).toContain(`route replace local ${range} dev `)
})
