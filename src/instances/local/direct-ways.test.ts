// Which connections of a browser lead out of its instance, as the kernel lists them.
import { expect, test } from 'vitest'
import { connectionsIn } from './direct-ways.ts'

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
