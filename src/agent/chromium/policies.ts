// Managed policies: those of every session, the session's own, its proxy, and the extensions to install. Chromium reads them when it starts; it takes the last
// two at any time.
import { mkdirSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DOWNLOADS_DIR, SAFE_BROWSING_HOST } from './flags.ts'

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
  // It would ask a server of Google for the time.
  BrowserNetworkTimeQueriesEnabled: false,
}

/**
 * Chromium takes a change of its policies at once only when none of their files was changed lately: else it waits five seconds, because somebody may still be writing.
 * So all of them have this time, and are put in place whole.
 */
const MODIFIED_AT = 0

/** Writes the policies of every session. */
export const writeBasePolicy = (): void => write('00-cob.json', BASE_POLICY)

/** Writes the session's own policies, in place of those before. They apply from the next start of Chromium on. */
export const writeSessionPolicy = (policy: Record<string, unknown>): void => write('50-session.json', policy)

/**
 * Has Chromium use the HTTP proxy on a port of this instance for everything, except for `direct` (hosts with ports), and the host that it is never to find (flags.ts);
 * without a port, none any more. It takes effect within
 * milliseconds, over whatever the session's own policies say. Peer connections then use no UDP of their own.
 */
export function writeProxyPolicy(port: number | undefined, direct: readonly string[]): void {
  if (port === undefined) return rmSync(join(POLICY_DIR, PROXY_POLICY), { force: true })
  write(PROXY_POLICY, {
    ProxySettings: { ProxyMode: 'fixed_servers', ProxyServer: `http://127.0.0.1:${port}`, ProxyBypassList: [...direct, SAFE_BROWSING_HOST].join(';') },
    WebRtcIPHandling: 'disable_non_proxied_udp',
  })
}

const PROXY_POLICY = '60-proxy.json'

/** Has Chromium install exactly these extensions: it fetches the new ones from their addresses, and removes those before that are not among them. */
export const writeExtensionPolicy = (all: readonly { id: string; updateUrl: string }[]): void =>
  write('70-extensions.json', { ExtensionInstallForcelist: all.map(({ id, updateUrl }) => `${id};${updateUrl}`) })

function write(name: string, policy: object): void {
  mkdirSync(POLICY_DIR, { recursive: true })
  // Beside the folder: Chromium reads every file in it.
  const draft = join(POLICY_DIR, '..', `.${name}`)
  writeFileSync(draft, JSON.stringify(policy))
  utimesSync(draft, MODIFIED_AT, MODIFIED_AT)
  renameSync(draft, join(POLICY_DIR, name))
}
