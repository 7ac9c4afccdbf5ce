// Managed policies: those of every session, the session's own, its proxy, and the extensions to install. Chromium reads all of them at its start, and the last
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
  // Pages may open windows without a user gesture, as in every browser that programs drive. Sessions with stealth change that.
  DefaultPopupsSetting: 1,
  // Otherwise it would ask a server of Google for the time.
  BrowserNetworkTimeQueriesEnabled: false,
}

/**
 * Chromium applies a change of its policies at once only if none of their files was changed recently; otherwise it waits five seconds, because somebody may
 * still be writing. So all files get this old time, and are replaced atomically.
 */
const MODIFIED_AT = 0

/** Writes the policies of every session. */
export const writeBasePolicy = (): void => write('00-cob.json', BASE_POLICY)

/**
 * Makes Chromium block windows that a page opens by itself, as in a person's browser. It applies from the next start of Chromium; the session's own policies
 * may override it.
 */
export const writePopupPolicy = (): void => write('20-popups.json', { DefaultPopupsSetting: 2 })

/** Writes the session's own policies and replaces earlier ones. They apply from the next start of Chromium. */
export const writeSessionPolicy = (policy: Record<string, unknown>): void => write('50-session.json', policy)

/**
 * Makes Chromium use the HTTP proxy on a port of this instance for everything, except for `direct` (hosts, with or without ports) and for Safe Browsing's server,
 * whose name does not resolve (flags.ts). Without a port: no proxy any more. It takes effect within milliseconds and overrides the session's own policies. Peer connections
 * then use no UDP of their own. The browser trusts certificates of sites that `authorities` (PEM) have signed.
 */
export function writeProxyPolicy(port: number | undefined, direct: readonly string[], authorities: string): void {
  if (port === undefined) return rmSync(join(POLICY_DIR, PROXY_POLICY), { force: true })
  write(PROXY_POLICY, {
    ProxySettings: { ProxyMode: 'fixed_servers', ProxyServer: `http://127.0.0.1:${port}`, ProxyBypassList: [...direct, SAFE_BROWSING_HOST].join(';') },
    WebRtcIPHandling: 'disable_non_proxied_udp',
    ...(authorities !== '' && { CACertificates: Array.from(authorities.matchAll(CERTIFICATE), ([, base64]) => base64!.replaceAll(/\s/g, '')) }),
  })
}

const PROXY_POLICY = '60-proxy.json'
const CERTIFICATE = /-----BEGIN CERTIFICATE-----([\sA-Za-z0-9+/=]*)-----END CERTIFICATE-----/g

/** Makes Chromium install exactly these extensions: it fetches new ones from their addresses, and removes others. */
export const writeExtensionPolicy = (all: readonly { id: string; updateUrl: string }[]): void =>
  write('70-extensions.json', { ExtensionInstallForcelist: all.map(({ id, updateUrl }) => `${id};${updateUrl}`) })

function write(name: string, policy: object): void {
  mkdirSync(POLICY_DIR, { recursive: true })
  // Write it outside of the folder: Chromium reads every file in it.
  const draft = join(POLICY_DIR, '..', `.${name}`)
  writeFileSync(draft, JSON.stringify(policy))
  utimesSync(draft, MODIFIED_AT, MODIFIED_AT)
  renameSync(draft, join(POLICY_DIR, name))
}
