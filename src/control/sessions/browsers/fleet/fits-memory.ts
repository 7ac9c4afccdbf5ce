// How many ready browsers the memory of the machine has room for.
import type { Config } from '../../../../base/config.ts'
import { FOR_SESSIONS, memoryNow, type Memory } from '../../../../base/memory.ts'

/** Memory of a ready browser with an empty page, its agent and its display: 160 to 200 MiB measured, and a reserve for its first page. */
const READY_BYTES = 256 * 1024 * 1024
/** The share of memory that ready browsers may take, unless the settings limit their number. */
const SHARE_OF_MEMORY = 1 / 4

/** How many ready browsers fit into their share of memory. */
export const fitsMemory = ({ totalBytes }: Memory): number => Math.floor((totalBytes * SHARE_OF_MEMORY) / READY_BYTES)

/** How many more ready browsers fit into the memory that is free now. Negative when there are too many; the minimum number stays then. */
export const fitting = ({ totalBytes, freeBytes }: Memory): number => Math.floor((freeBytes - totalBytes * FOR_SESSIONS) / READY_BYTES)

/** The most warm browsers: the setting, or else as many as fit the memory, and not more than there may be sessions. */
export function mostWarm({ warmBrowsers: least, warmBrowsersMax, maxBrowsers }: Config): number {
  return warmBrowsersMax ?? Math.max(least, Math.min(maxBrowsers, fitsMemory(memoryNow())))
}
