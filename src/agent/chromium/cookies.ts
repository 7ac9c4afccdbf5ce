// Restores cookies that Chromium did not write when it closed. It writes them 30 seconds after a change, or at its end. On a busy machine it sometimes ends
// before that, and still reports a proper close (https://crbug.com/792187). docs/decisions/0074-profiles.md
import { createDecipheriv, createHash, pbkdf2Sync } from 'node:crypto'
import { copyFileSync, lstatSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Log } from '../../base/log.ts'
import type { Cdp } from './cdp.ts'
import type { Protocol } from './cdp-protocol.ts'
import { LAST_SESSION } from './flags.ts'

export type Cookie = Protocol.Network.Cookie

/** Timeout for some thousand cookies of 4 kB. */
const ANSWER_MS = 10_000
/** A cookie that expires within this time would not be read by the next browser. */
const SOON_MS = 60_000
/** Chromium keeps some thousand cookies; a program of the session can write others. */
const MAX_ROWS = 20_000
const MAX_VALUE = 8_192
/** Most other Chromiums that are started to write missing cookies, one after the other. */
const MAX_TRIES = 2
/** Chromium's database of cookies, in the folder of a profile. */
const DATABASE = 'Cookies'
const PROFILE = 'Default'
/** From 1601, where Chromium's clock begins, to 1970. In microseconds. */
const EPOCH = 11_644_473_600_000_000n

/** The cookies of the default context at one moment. `at`: that moment, in microseconds of Chromium's clock. */
export interface KnownCookies {
  at: bigint
  cookies: Cookie[]
}

/** The cookies of the default context that Chromium keeps. */
export async function knownCookies(cdp: Pick<Cdp, 'send'>): Promise<KnownCookies> {
  const now = Date.now()
  const { cookies } = await cdp.send('Storage.getCookies', {}, { limitMs: ANSWER_MS })
  const isKept = ({ expires, partitionKeyOpaque }: Cookie) => partitionKeyOpaque !== true && (expires === -1 || expires * 1000 > now + SOON_MS)
  return { at: BigInt(now) * 1000n + EPOCH, cookies: cookies.filter(isKept) }
}

interface Row {
  host_key: string
  path: string
  name: string
  value: string
  encrypted_value: Uint8Array
  expires_utc: bigint
  last_update_utc: bigint
  is_persistent: bigint
  is_secure: bigint
  is_httponly: bigint
  samesite: bigint
  priority: bigint
  source_scheme: bigint
  source_port: bigint
  top_frame_site_key: string
  has_cross_site_ancestor: bigint
}

/** The cookies that the database of the profile in `folder` lacks or has with other values. A change that is newer than `known` counts as written. */
export function unwritten(folder: string, { at, cookies }: KnownCookies): Cookie[] {
  if (cookies.length === 0) return []
  const rows = Map.groupBy(readRows(join(folder, DATABASE)), (row) => keyOf(row.host_key, row.path, row.name))
  return cookies.filter(({ domain, path, name, value, expires }) => {
    const same = rows.get(keyOf(domain, path, name)) ?? []
    return !same.some((row) => {
      if (row.last_update_utc > at) return true
      const written = valueOf(row)
      // With an unknown encryption, compare only the expiry.
      if (written === undefined) return expires === -1 || Math.abs(Number(row.expires_utc - EPOCH) / 1e6 - expires) < 1
      return written === value
    })
  })
}

/** What the database has for the fields of the protocol that are words there. */
const SAME_SITE = ['None', 'Lax', 'Strict'] as const
const PRIORITY = ['Low', 'Medium', 'High'] as const
const SOURCE_SCHEME = ['Unset', 'NonSecure', 'Secure'] as const

/** The cookies of the browser's session in the database of the profile in `folder`. A lean browser forgets them at its start. */
export function sessionCookies(folder: string, log: Log): Cookie[] {
  try {
    const rows = readRows(join(folder, DATABASE)).filter((row) => row.is_persistent === 0n)
    return rows.flatMap((row) => {
      const value = valueOf(row)
      if (value === undefined) return []
      const sameSite = SAME_SITE[Number(row.samesite)]
      const partitionKey =
        row.top_frame_site_key === '' ? undefined : { topLevelSite: row.top_frame_site_key, hasCrossSiteAncestor: row.has_cross_site_ancestor === 1n }
      return {
        name: row.name,
        value,
        domain: row.host_key,
        path: row.path,
        expires: -1,
        size: row.name.length + value.length,
        session: true,
        httpOnly: row.is_httponly === 1n,
        secure: row.is_secure === 1n,
        priority: PRIORITY[Number(row.priority)] ?? 'Medium',
        sourceScheme: SOURCE_SCHEME[Number(row.source_scheme)] ?? 'Unset',
        sourcePort: Number(row.source_port),
        ...(sameSite && { sameSite }),
        ...(partitionKey && { partitionKey }),
      }
    })
  } catch (err) {
    log.warn({ err }, "the profile's cookies cannot be read")
    return []
  }
}

const isFile = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false })?.isFile() ?? false

const keyOf = (...parts: string[]): string => parts.join('\0')

function readRows(path: string): Row[] {
  if (!isFile(path)) return []
  // Load it only here and not at the start of every agent: it takes 1.5 MB.
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite')
  // Not read-only: this rolls an interrupted write back, as the next Chromium would.
  using database = new DatabaseSync(path)
  const rows = database.prepare(`select * from cookies where length(encrypted_value) <= ${MAX_VALUE} and length(value) <= ${MAX_VALUE} limit ${MAX_ROWS}`)
  rows.setReadBigInts(true)
  return rows.all() as unknown as Row[]
}

/** With --password-store=basic, the key is derived from constants in Chromium's source (components/os_crypt). It only obfuscates. */
const makeKey = () => pbkdf2Sync('peanuts', 'saltysalt', 1, 16, 'sha1')
let key: Buffer | undefined
const PREFIX = 'v10'

function valueOf({ host_key, value, encrypted_value }: Row): string | undefined {
  if (encrypted_value.length === 0) return value
  const bytes = Buffer.from(encrypted_value)
  if (bytes.subarray(0, PREFIX.length).toString('latin1') !== PREFIX) return undefined
  try {
    const decipher = createDecipheriv('aes-128-cbc', (key ??= makeKey()), Buffer.alloc(16, ' '))
    const plain = Buffer.concat([decipher.update(bytes.subarray(PREFIX.length)), decipher.final()])
    // Newer ones begin with the digest of the host.
    const digest = createHash('sha256').update(host_key).digest()
    return plain.subarray(plain.subarray(0, digest.length).equals(digest) ? digest.length : 0).toString()
  } catch {
    return undefined
  }
}

/**
 * Starts another Chromium, with its own profile below `scratch`, to write the missing cookies into a copy of the database of the profile in `folder`.
 * `runAside` starts it with that user data directory, and resolves when it has closed. Resolves with the number of cookies that are still missing.
 */
export async function writeMissing(
  folder: string,
  known: KnownCookies,
  { scratch, runAside, log }: { scratch: string; runAside: (userDataDir: string, work: (cdp: Cdp) => Promise<void>) => Promise<void>; log: Log },
): Promise<number> {
  let missing = missingFrom(folder, known, log)
  for (let tries = 0; missing.length > 0 && tries < MAX_TRIES; tries++) {
    log.warn({ missing: missing.length }, 'Chromium has closed without writing all cookies; another one writes them')
    const aside = join(scratch, PROFILE)
    rmSync(scratch, { recursive: true, force: true })
    mkdirSync(aside, { recursive: true, mode: 0o700 })
    try {
      // Without this, it would remove session cookies at its start.
      writeFileSync(join(aside, 'Preferences'), JSON.stringify({ session: { restore_on_startup: LAST_SESSION } }), { mode: 0o600 })
      const database = join(folder, DATABASE)
      if (isFile(database)) copyFileSync(database, join(aside, DATABASE))
      await runAside(scratch, async (cdp) => {
        await setAgain(cdp, missing, log)
      })
      // It may have failed like the first one.
      if (missingFrom(aside, known, log).length < missing.length) {
        rmSync(`${database}-journal`, { force: true })
        renameSync(join(aside, DATABASE), database)
      }
    } finally {
      rmSync(scratch, { recursive: true, force: true })
    }
    missing = missingFrom(folder, known, log)
  }
  return missing.length
}

/** The missing cookies. All of them when the database cannot be read. */
function missingFrom(folder: string, known: KnownCookies, log: Log): Cookie[] {
  try {
    return unwritten(folder, known)
  } catch (err) {
    log.warn({ err }, "the profile's cookies cannot be read")
    return known.cookies
  }
}

/** Gives a browser cookies that another one had. One that it refuses is logged. */
export async function setAgain(cdp: Pick<Cdp, 'send'>, cookies: readonly Cookie[], log: Log): Promise<void> {
  for (const cookie of cookies)
    await cdp.send('Storage.setCookies', { cookies: [settable(cookie)] }).catch((err: unknown) => log.warn({ err }, 'a cookie could not be set again'))
}

const settable = ({ name, value, domain, path, secure, httpOnly, sameSite, expires, priority, sourceScheme, sourcePort, partitionKey }: Cookie) => ({
  name,
  value,
  domain,
  path,
  secure,
  httpOnly,
  priority,
  sourceScheme,
  sourcePort,
  ...(sameSite !== undefined && { sameSite }),
  ...(expires !== -1 && { expires }),
  ...(partitionKey !== undefined && { partitionKey }),
})
