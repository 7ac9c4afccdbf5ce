// A sandbox's network is complete before any process starts in it, and does not change afterwards. Pages in it can connect to each other.
import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { asUser } from '../../src/base/unprivileged.ts'
import { instanceUser } from '../../src/base/user.ts'
import { writeGuestEtc } from '../../src/instances/local/guest-etc.ts'
import { planNetwork } from '../../src/instances/local/network.ts'
import { networked } from '../../src/instances/local/sandbox.ts'
import { runInside } from '../support/inside.ts'
import { servePages } from '../support/pages.ts'
import { openSession } from '../support/session.ts'
import { shareCloud } from '../support/shared-cloud.ts'

const run = promisify(execFile)

/** Longer than duplicate address detection (2 s) and router advertisements (within 1 s). */
const WATCHED_SECONDS = 4

let etc: string
const network = planNetwork(false)
beforeAll(async () => {
  etc = mkdtempSync(join(tmpdir(), 'cob-network-'))
  await writeGuestEtc(etc, network)
})
afterAll(() => rmSync(etc, { recursive: true }))

test('no address, link or route of a sandbox changes after it is entered', async () => {
  const watch = ['/bin/sh', '-c', `timeout ${WATCHED_SECONDS} ip -oneline monitor link address route; echo --; ip -oneline address show dev eth0`]
  const { file, args } = asUser(instanceUser('watched'), { etc }, (seen) => networked(network, seen.etc!, [], watch))
  const { stdout } = await run(file, args, { timeout: 60_000 })
  const [changes, addresses] = stdout.split('--\n')
  expect(changes).toBe('')
  expect(addresses).toMatch(/^\d+: eth0 +inet/m)
  expect(addresses).not.toContain('tentative')
})

test('a sandbox starts with any process ids on the host', async () => {
  const isFree = (pid: number) => [1, 2, 3, 4, 5].every((after) => !existsSync(`/proc/${pid + after}`))
  const last = Array.from({ length: 20_000 }, (_, index) => 10_000 + index).find(isFree)!
  const before = `echo ${last} >/proc/sys/kernel/ns_last_pid || exit 73`
  const bwrap = ['bwrap', '--unshare-user', '--unshare-pid', '--ro-bind', '/usr', '/usr', '--symlink', 'usr/lib', '/lib', '--symlink', 'usr/lib64', '/lib64']
  const { file, args } = asUser(instanceUser('numbered'), { etc }, (seen) => networked(network, seen.etc!, [before], [...bwrap, '/usr/bin/echo', 'started']))
  expect((await run(file, args, { timeout: 60_000 })).stdout).toBe('started\n')
})

test('the first navigation of a browser that was not warm succeeds, and its network does not change', async () => {
  await using cloud = await shareCloud({ COB_WARM_BROWSERS: '0' })
  await using pages = await servePages()
  for (let count = 0; count < 2; count++) {
    await using session = await openSession(cloud, { timeout_seconds: 60, headless: true })
    const changes = runInside(cloud, session.id, 'timeout 3 ip -oneline monitor link address route; true')
    for (const page of ['first', 'second', 'third']) await session.page.goto(pages.url(page))
    // When the machine gains an address, running sessions block it. host-addresses.test.ts adds addresses of these networks, so ignore them.
    const own = (await changes).output.split('\n').filter((line) => line !== '' && !/ 198\.18\.| 2001:db8:/.test(line))
    expect(own).toEqual([])
  }
})

/** One WebRTC peer. `offer` and `answer` are session descriptions with all ICE candidates. `globalThis.heard` has what the other peer sent. */
const PEER = `
const peer = new RTCPeerConnection()
const complete = () => new Promise((done) => {
  const look = () => peer.iceGatheringState === 'complete' && done(peer.localDescription.toJSON())
  peer.addEventListener('icegatheringstatechange', look)
  look()
})
// Agreed beforehand. Of a channel that the other peer announces, Chromium sometimes keeps what is sent on it at first, without end.
const channel = peer.createDataChannel('one', { negotiated: true, id: 0 })
channel.onopen = () => channel.send('hello')
channel.onmessage = ({ data }) => { globalThis.heard = data }
globalThis.offer = async () => {
  await peer.setLocalDescription()
  return complete()
}
globalThis.answer = async (offer) => {
  await peer.setRemoteDescription(offer)
  await peer.setLocalDescription()
  return complete()
}
globalThis.take = (answer) => peer.setRemoteDescription(answer)`

test.each([{}, { stealth: true }])('two pages of a session connect by WebRTC, and see only names of each other: %o', async (options) => {
  await using cloud = await shareCloud()
  await cloud.warm()
  await using pages = await servePages()
  await using session = await openSession(cloud, { timeout_seconds: 60, ...options })
  const [one, two] = [session.page, await session.page.context().newPage()]
  for (const page of [one, two]) {
    await page.goto(pages.url('plain'))
    await page.evaluate(PEER)
  }
  const offer: { sdp: string } = await one.evaluate('offer()')
  const answer: { sdp: string } = await two.evaluate(`answer(${JSON.stringify(offer)})`)
  await one.evaluate(`take(${JSON.stringify(answer)})`)
  for (const page of [one, two]) await expect.poll(() => page.evaluate('globalThis.heard')).toBe('hello')
  for (const { sdp } of [offer, answer]) {
    const hosts = Array.from(sdp.matchAll(/^a=candidate:(?:\S+ ){4}(\S+)/gm), ([, host]) => host!)
    expect(hosts.length).toBeGreaterThan(0)
    expect(hosts.filter((host) => !/^[\da-f-]{36}\.local$/.test(host))).toEqual([])
  }
})
