// Managed policies: those of every session, and the session's own. Chromium reads them when it starts.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DOWNLOADS_DIR } from './flags.ts'

/** Debian's Chromium reads managed policies here. In an instance the agent owns the folder. */
const POLICY_DIR = '/etc/chromium/policies/managed'

/**
 * Policies of every session; the session's own policies override them. The warning bar about flags would push every page down. A new tab is empty and
 * focuses its address bar, as people expect; Debian's own new tab page takes the focus away. Downloads go to their folder without a prompt.
 */
const BASE_POLICY = {
  CommandLineFlagSecurityWarningsEnabled: false,
  NewTabPageLocation: 'about:blank',
  DownloadDirectory: DOWNLOADS_DIR,
  PromptForDownloadLocation: false,
  // Pages without TLS may download files, and any page may download several, without a prompt. (The first policy is only about plain HTTP addresses;
  // mixed content on TLS pages stays as it is.)
  InsecureContentAllowedForUrls: ['http://*'],
  DefaultAutomaticDownloadsSetting: 1,
  // Pages may open windows without a user gesture, as in every browser that programs drive.
  DefaultPopupsSetting: 1,
}

/** Writes the policies of every session. */
export const writeBasePolicy = (): void => write('00-cob.json', BASE_POLICY)

/** Writes the session's own policies, in place of those before. They apply from the next start of Chromium on. */
export const writeSessionPolicy = (policy: Record<string, unknown>): void => write('50-session.json', policy)

function write(name: string, policy: object): void {
  mkdirSync(POLICY_DIR, { recursive: true })
  writeFileSync(join(POLICY_DIR, name), JSON.stringify(policy))
}
