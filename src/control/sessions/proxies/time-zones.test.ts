// Time zones of addresses, from databases of cities and of countries.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { mmdb } from '../../../../test/support/mmdb.ts'
import { scratchDir } from '../../../../test/support/scratch.ts'
import { openTimeZones } from './time-zones.ts'

const stored = (content: Buffer | string): string => {
  const file = join(scratchDir('cob-geoip-'), 'geoip.mmdb')
  writeFileSync(file, content)
  return file
}

test('a database of cities tells the zone of a city', async () => {
  const city = (time_zone: string) => ({ country: { iso_code: 'US' }, location: { time_zone } })
  const at = await openTimeZones(
    stored(mmdb('GeoLite2-City', { '203.0.113.0/24': city('America/Boise'), '198.51.100.128/25': city('Mars/Olympus'), '192.0.2.7/32': city('Asia/Kolkata') })),
  )
  expect(['203.0.113.9', '192.0.2.7', '192.0.2.8', '198.51.100.200', '2001:db8::1'].map(at)).toEqual([
    'America/Boise',
    'Asia/Kolkata',
    undefined,
    undefined,
    undefined,
  ])
})

test('a database of countries tells the zone of a country that has only one', async () => {
  const country = (iso_code: string) => ({ country: { iso_code } })
  const at = await openTimeZones(
    stored(mmdb('GeoLite2-Country', { '203.0.113.0/24': country('JP'), '198.51.100.0/24': country('US'), '192.0.2.0/24': country('XX') })),
  )
  expect(['203.0.113.9', '198.51.100.1', '192.0.2.1'].map(at)).toEqual(['Asia/Tokyo', undefined, undefined])
})

test.each([
  ['is not there', '/nowhere/geoip.mmdb'],
  ['is something else', stored('not a database')],
])('a file that %s ends the start, and the setting is named', async (_, file) => {
  await expect(openTimeZones(file)).rejects.toThrow(`COB_GEOIP_FILE: ${file} cannot be read as a MaxMind database`)
})
