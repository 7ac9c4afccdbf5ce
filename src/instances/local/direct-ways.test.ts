// The connections of a browser that lead out of its instance, as the kernel lists them.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { connectionsIn, socketsOf } from './direct-ways.ts'

const HEAD = '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n'
const line = (from: string, to: string, state: string, inode: number) =>
  `   0: ${from} ${to} ${state} 00000000:00000000 00:00000000 00000000  1000        0 ${inode} 1 0000000000000000 20 4 30 10 -1\n`

test('connections to other hosts are found, by IPv4 and IPv6; listening ones, closed ones, loopback and the instance itself are not', () => {
  const OWN = '0200000A' // 10.0.0.2
  const v4 =
    HEAD +
    line(`${OWN}:C350`, '080808C6:01BB', '01', 11) + // 198.8.8.8
    line(`${OWN}:C351`, '080808C6:0050', '02', 12) +
    line(`${OWN}:C352`, '080808C6:0050', '08', 13) +
    line(`${OWN}:C353`, '080808C6:0050', '06', 0) +
    line('00000000:0050', '00000000:0000', '0A', 14) +
    line('0100007F:C354', '0100007F:0050', '01', 15) +
    line(`${OWN}:C355`, `${OWN}:2328`, '01', 16)
  const v6 =
    HEAD +
    line('B80D0120000000000000000002000000:C356', 'B80D0120000000000000000001000000:01BB', '01', 17) +
    line('00000000000000000000000001000000:C357', '00000000000000000000000001000000:0050', '01', 18)
  expect(connectionsIn(v4, v6)).toEqual([
    { inode: '11', from: '10.0.0.2:50000', to: '198.8.8.8:443' },
    { inode: '12', from: '10.0.0.2:50001', to: '198.8.8.8:80' },
    { inode: '13', from: '10.0.0.2:50002', to: '198.8.8.8:80' },
    { inode: '17', from: '[2001:db8::2]:50006', to: '[2001:db8::1]:443' },
  ])
})

const BROWSER = '/nowhere/chromium'

/** A process with this name in its command line, a socket whose inode is returned, and this many descriptors. */
async function withSocket(name: string, descriptors: number) {
  const script = `use Socket; socket(my $s, AF_INET, SOCK_STREAM, 0) or die; my @more; for (1..${descriptors}) { open my $f, '<', '/dev/null' or die; push @more, $f }
    $| = 1; print readlink '/proc/self/fd/' . fileno $s; sleep`
  const child = spawn('perl', ['-e', script], { argv0: name, stdio: ['ignore', 'pipe', 'inherit'] })
  const [received] = (await once(child.stdout, 'data')) as [Buffer]
  return { pid: child.pid!, inode: received.toString().slice('socket:['.length, -1), [Symbol.dispose]: () => child.kill('SIGKILL') }
}

test("the browser's sockets are found by its name; with too many descriptors, it is not known which are its own", async () => {
  using browser = await withSocket(BROWSER, 10)
  using other = await withSocket('/nowhere/other', 10)
  const pids = [other.pid, 999_999_999, browser.pid]
  const found = await socketsOf(pids, BROWSER)
  expect([found?.has(browser.inode), found?.has(other.inode)]).toEqual([true, false])
  using first = await withSocket(BROWSER, 8_000)
  using second = await withSocket(BROWSER, 8_000)
  using third = await withSocket(BROWSER, 8_000)
  expect(await socketsOf([first.pid, second.pid, third.pid], BROWSER)).toBeUndefined()
  expect(await socketsOf(Array(20_001).fill(999_999_999), BROWSER)).toBeUndefined()
})
