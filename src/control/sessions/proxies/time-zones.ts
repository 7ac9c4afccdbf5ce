// The time zone at an address, from the operator's GeoIP file (COB_GEOIP_FILE): a MaxMind database of cities or countries.
import { readFileSync } from 'node:fs'
import type { CityResponse } from 'mmdb-lib'
import { ConfigError } from '../../../base/setting.ts'

/** The zones of each country, from Debian's package tzdata. */
const ZONES_OF_COUNTRIES = '/usr/share/zoneinfo/zone.tab'

/** The IANA name of the time zone at an address; undefined when the file does not have it. */
export type TimeZoneAt = (ip: string) => string | undefined

/** Reads the file into memory. A file of countries gives the zone only for countries with a single one. @throws ConfigError when it is not such a file */
export async function openTimeZones(file: string): Promise<TimeZoneAt> {
  const { Reader } = await import('mmdb-lib')
  try {
    const reader = new Reader<CityResponse>(readFileSync(file))
    const only = onlyZones()
    return (ip) => {
      const found = reader.get(ip)
      const zone = found?.location?.time_zone ?? only.get(found?.country?.iso_code ?? '')
      return zone !== undefined && isKnown(zone) ? zone : undefined
    }
  } catch (error) {
    throw new ConfigError('COB_GEOIP_FILE', `${file} cannot be read as a MaxMind database: ${(error as Error).message}`)
  }
}

/** The countries with a single time zone, and that zone. */
function onlyZones(): Map<string, string> {
  const all = new Map<string, string[]>()
  for (const line of readFileSync(ZONES_OF_COUNTRIES, 'utf8').split('\n')) {
    const [country, , zone] = line.split('\t')
    if (zone !== undefined && !line.startsWith('#')) all.set(country!, [...(all.get(country!) ?? []), zone])
  }
  return new Map([...all].flatMap(([country, zones]) => (zones.length === 1 ? [[country, zones[0]!]] : [])))
}

function isKnown(timeZone: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone })
    return true
  } catch {
    return false
  }
}
