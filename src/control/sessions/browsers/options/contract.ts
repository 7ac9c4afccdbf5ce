// The options of browsers, each declared once. An update applies them in this order. Fields that identify or end a session (name, tags, timeout, run of an app)
// are not options but columns, which queries use.
import * as z from 'zod'
import type { Viewport } from '../../../../agent/session/contract.ts'
import { ExtensionChoices } from '../../extensions/contract.ts'
import { networkOption } from '../../network/contract.ts'
import { profileOption, saveOption } from '../../profiles/contract.ts'
import { proxyOptions } from '../../proxies/contract.ts'
import { telemetryOption } from '../../telemetry/contract.ts'
import { Memory, notBuilt, option, Region, type Refusal } from './option/contract.ts'

/** The longest side of a screen with which an X server is started. */
const MAX_SIDE = 7680
const viewport = {
  width: z.int().min(100).max(MAX_SIDE),
  height: z.int().min(100).max(MAX_SIDE),
  refresh_rate: z.int().min(1).max(240).optional(),
}
/** The viewport of a session whose caller gives none. */
export const DEFAULT_VIEWPORT: Viewport = { width: 1920, height: 1080, refresh_rate: 60 }
/** Refresh rate when a caller gives only a size. Comparable services go down to 10 Hz for large screens; Cob does not need to. */
const DEFAULT_REFRESH_RATE = 60
interface GivenViewport {
  width: number
  height: number
  refresh_rate?: number | undefined
}
const sized = ({ width, height, refresh_rate = DEFAULT_REFRESH_RATE }: GivenViewport = DEFAULT_VIEWPORT): Viewport => ({ width, height, refresh_rate })
const isSame = (a: Viewport, b: Viewport): boolean => a.width === b.width && a.height === b.height && a.refresh_rate === b.refresh_rate
const tooLarge = (side: 'width' | 'height', max: number): Refusal => ({
  field: `viewport.${side}`,
  problem: `must be at most ${max} for this session; create one with a larger viewport`,
})

export const StartUrl = z
  .string()
  .max(2048)
  .refine((url) => URL.canParse(url) && new URL(url).protocol !== 'javascript:', 'must be an absolute URL')

/** Policies that would take control of the browser away from Cob, or let its traffic escape the session's rules. */
const CLOSED_POLICY =
  /^(Extension|BlockExternalExtensions|Proxy|RemoteDebugging|DeveloperTools|HeadlessMode|WebDriver|UserDataDir|DiskCacheDir|CommandLineFlagSecurityWarningsEnabled)/
export const MAX_POLICY_BYTES = 5 * 1024 * 1024
/**
 * A longer `chrome_policy` (in characters of JSON) applies, but is not stored and not returned. One may have 5 MiB: a list of sessions that had one
 * each would fill the service's memory, and their rows the disk.
 */
export const KEPT_POLICY = 64 * 1024

const ChromePolicy = z
  .record(z.string(), z.unknown())
  .refine((policy) => JSON.stringify(policy).length <= MAX_POLICY_BYTES, 'is larger than 5 MiB')
  .superRefine((policy, context) => {
    for (const name of Object.keys(policy).filter((key) => CLOSED_POLICY.test(key)))
      context.addIssue({ code: 'custom', path: [name], message: 'policies for extensions, proxy and automation are not accepted' })
  })

/** An option that is not implemented, in a create. */
const noneYet = (what: string) => option({ create: notBuilt(what) })
/** An option that is not implemented, in a create and in an update. */
const noneYetAnywhere = (what: string) => option({ create: notBuilt(what), update: notBuilt(what) })

/** Whether an instance with `mb` MiB has at least this memory. */
export const holds = (size: Memory, mb: number): boolean => parseInt(size, 10) * 1024 <= mb

/** Options that need a page in full screen. `isFull`: it is the screen of the full browser. */
const inFullScreen = (isFull: boolean) =>
  option({
    create: z.boolean().default(false),
    needsFull: (given) => isFull && given === true,
    store: (given) => given,
    reply: { schema: z.boolean(), show: (stored) => stored },
    fit: (given, booted) => (given && !booted.fullscreen ? { fullscreen: true } : {}),
  })

export const OPTIONS = {
  // A headless browser has a display too, so that its screen can be captured. Its page fills the viewport. docs/headless.md
  headless: inFullScreen(false),
  /** Most of what the option means elsewhere is on for every session (docs/stealth.md). */
  stealth: option({
    create: z.boolean().default(false),
    needsFull: (given) => given === true,
    store: (given) => given,
    reply: { schema: z.boolean(), show: (stored) => stored },
    fit: (given, booted) => (given && !booted.stealth ? { stealth: true } : {}),
  }),
  kiosk_mode: inFullScreen(true),
  /** The region of the session. Refused when this service is in another one. */
  region: option({
    create: Region.optional(),
    refuseCreate: (given, { region }) =>
      given === undefined || given === region ? undefined : { field: 'region', problem: `this service is in ${region} (COB_REGION); leave region out` },
    reply: { schema: Region, show: (_, { region }) => region },
  }),
  /** The least memory of the session. Refused when sessions of this service have less. */
  memory: option({
    create: Memory.optional(),
    refuseCreate: (given, { memoryMb }) =>
      given === undefined || holds(given, memoryMb)
        ? undefined
        : {
            field: 'memory',
            problem: `sessions of this service have ${memoryMb} MiB (COB_INSTANCE_MEMORY_MB); ask for that or less, or leave memory out`,
          },
    store: (given) => given,
    reply: { schema: Memory, show: (asked, { memory }) => asked ?? memory },
  }),
  viewport: option({
    create: z.strictObject(viewport).optional(),
    update: z.strictObject({ ...viewport, force: z.boolean().default(false) }).optional(),
    refuseUpdate: (given, { maxScreen }) => {
      if (given && given.width > maxScreen.width) return tooLarge('width', maxScreen.width)
      return given && given.height > maxScreen.height ? tooLarge('height', maxScreen.height) : undefined
    },
    store: sized,
    restore: sized,
    reply: { schema: z.object({ width: z.int(), height: z.int(), refresh_rate: z.int() }), show: (stored) => stored },
    fit: (given, booted) => (isSame(sized(given), booted.viewport) ? {} : { viewport: sized(given) }),
    refit: (given) => ({ viewport: sized(given) }),
  }),
  chrome_policy: option({
    create: ChromePolicy.optional(),
    needsFull: (given) => given !== undefined && Object.keys(given).length > 0,
    store: (given) => (given && JSON.stringify(given).length <= KEPT_POLICY ? given : undefined),
    reply: { schema: z.record(z.string(), z.unknown()).optional(), show: (stored) => stored },
    fit: (given) => (given && Object.keys(given).length > 0 ? { chrome_policy: given } : {}),
  }),
  gpu: noneYet('GPU browsers are'),
  video_memory: noneYet('GPU browsers are'),
  // Columns of the row store their values, because queries use them.
  profile: profileOption,
  profile_save_changes: saveOption,
  ...proxyOptions,
  location: noneYetAnywhere('a location is'),
  network: networkOption,
  /** Looked up and sent to the browser before it is fitted (extensions/chosen.ts). */
  extensions: option({ create: ExtensionChoices, needsFull: (given) => given !== undefined && given.length > 0 }),
  telemetry: telemetryOption,
  vaults: noneYet('vaults are'),
  // The last option: an update opens the page after all other changes. An empty text opens nothing. A page that does not open fails neither a create nor an
  // update.
  start_url: option({
    create: StartUrl.optional(),
    update: z.union([StartUrl, z.literal('')]).optional(),
    store: (given) => given,
    reply: { schema: z.string().optional(), show: (stored) => stored },
    fit: (given) => (given === undefined ? {} : { start_url: given }),
    refit: (given) => (given ? { start_url: given } : {}),
  }),
}
