// How Chromium is started, and why each flag is there. The sandbox is never switched off.

/** Where the profile is in an instance. Users of the original depend on this path. */
export const USER_DATA_DIR = '/home/kernel/user-data'

/** Where the browser saves downloads. Users of the original depend on this path. */
export const DOWNLOADS_DIR = '/home/kernel/Downloads'

/** Chromium's value of the preference `session.restore_on_startup` for "continue where you left off". Without it, a start drops the cookies of the session. */
export const LAST_SESSION = 1

/**
 * How long after a change Chromium has written what pages keep in localStorage: it begins one second after a first change, by a flag
 * below (StorageAreaImpl::EnableAggressiveCommitDelay). Without that flag it is 5 seconds, and more for pages that change a lot.
 */
export const STORED_AFTER_MS = 1_250

/** For services that Chromium asks by itself. It refuses this port without a connection. */
const NOWHERE = 'http://127.0.0.1:9/'

/**
 * Where Chromium gets lists of dangerous pages, megabytes for each session. They cannot be turned off by a policy: without Safe Browsing, many kinds of
 * files are downloaded only after a person has agreed.
 */
export const SAFE_BROWSING_HOST = 'safebrowsing.googleapis.com'

const FEATURES_OFF = [
  'Translate', // no bar that asks to translate the page
  'OptimizationGuideModelDownloading',
  'OptimizationGuideOnDeviceModel', // no model downloads, no service to run them
  'MediaRouter',
  'DialMediaRouteProvider', // no search for cast devices on the network
  'GlobalMediaControls',
  // A hidden renderer of 60-80 MB for an address bar made of web pages; the native one does the same.
  'PreloadTopChromeWebUI',
  'WebUIOmniboxPopup',
  'WebUIOmniboxAimPopup',
  'WebUIOmniboxFullPopup',
  'InterestFeedContentSuggestions',
  'CalculateNativeWinOcclusion',
  'AutofillServerCommunication',
  'CertificateTransparencyComponentUpdater',
]

const FEATURES_ON = [
  'NetworkServiceInProcess2', // a process less: docs/decisions/0065
  // Chromium reads changed policies in a task of its lowest priority. Those wait until it calls its start complete: without these settings when its first
  // page has been idle for a second or two, which a page that loads all the time never is.
  'ImprovedStartupBestEffortDelay:StartupDelayVisibleTabTimeout/0s/StartupDelayFailsafeTimeout/500ms/StartupDelayIncludesSessionRestore/false',
]

/** The tabs that were open last; an empty page if there were none. */
export const RESTORE = '--restore-last-session'

/** Pages in the background keep their timers and frames: an agent works in several tabs. A page can notice. */
const AWAKE = ['--disable-background-timer-throttling', '--disable-backgrounding-occluded-windows', '--disable-renderer-backgrounding']

/**
 * The command line for a session's browser; `asPerson`: without what a page could notice and only programs need. `extra` comes last, so its flags
 * override ours.
 */
export function chromiumFlags(size: { width: number; height: number }, asPerson: boolean, extra: readonly string[]): string[] {
  return [
    // Two ways to control it: a pipe for the agent, and a port inside the sandbox for clients. The port is random, because pages scan well-known ports.
    '--remote-debugging-pipe',
    '--remote-debugging-port=0',
    `--user-data-dir=${USER_DATA_DIR}`,
    '--no-first-run',
    '--no-default-browser-check',
    '--password-store=basic', // no key ring to wait for
    '--enable-aggressive-domstorage-flushing', // STORED_AFTER_MS
    // No traffic of the browser's own: only the caller's pages use the network. Not by --disable-background-networking: Chromium would install no extensions
    // by policy then, and asks for accounts and components all the same. docs/decisions/0079
    '--disable-component-update',
    `--component-updater=url-source=${NOWHERE}`,
    `--gaia-url=${NOWHERE}`,
    `--host-resolver-rules=MAP ${SAFE_BROWSING_HOST} ~NOTFOUND`,
    '--disable-domain-reliability',
    '--disable-sync',
    '--disable-default-apps',
    '--disable-breakpad',
    `--disable-features=${FEATURES_OFF.join(',')}`,
    `--enable-features=${FEATURES_ON.join(',')}`,
    ...(asPerson ? [] : AWAKE),
    '--disable-hang-monitor',
    '--disable-session-crashed-bubble',
    '--hide-crash-restore-bubble',
    // A user's browser has no navigator.webdriver, but the agent's pipe would set it. (A policy hides the warning bar that this flag causes.)
    '--disable-blink-features=AutomationControlled',
    // There is no GPU: frames are drawn in software, and WebGL works through SwiftShader rather than not at all. Without the second flag a first process
    // looks for a GPU, ends, and another one follows.
    '--enable-unsafe-swiftshader',
    '--disable-gpu',
    '--window-position=0,0',
    `--window-size=${size.width},${size.height}`,
    '--start-maximized',
    ...extra,
    // It would be one more tab.
    ...(extra.includes(RESTORE) ? [] : ['about:blank']),
  ]
}
