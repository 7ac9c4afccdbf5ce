// The profile contract, answered by the profile of the session.
import type { Readable } from 'node:stream'
import type { Bytes, Handlers } from '../../http/route.ts'
import type { Fitting } from '../session/fit/fitting.ts'
import type { profile as contract } from './contract.ts'

interface LoadOptions {
  keepTabs: boolean
  maxBytes: number
}

/** The profile of the browser; the fake driver has its own implementation. */
export interface Profile {
  /** Resolves with the version of Chromium when clients see the archive's data. @throws 400, 409, 413 or 503; then the earlier profile stays */
  load(archive: Readable, options: LoadOptions, signal: AbortSignal): Promise<{ chromium: string }>
  /** Ends the browser, and packs its profile. */
  save(): Promise<Bytes>
}

export const profileHandlers = (profile: Profile, fitting: Pick<Fitting, 'fit'>): Handlers<typeof contract> => ({
  async loadProfile({ query: { keep_tabs, max_bytes, start_url }, body, signal }) {
    const loaded = await profile.load(body, { keepTabs: keep_tabs && start_url === undefined, maxBytes: max_bytes }, signal)
    if (start_url !== undefined) await fitting.fit({ start_url })
    return loaded
  },
  saveProfile: () => profile.save(),
})
