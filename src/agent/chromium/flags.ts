// How Chromium is started, and why each flag is there. The sandbox is never switched off.

/** Where the profile lies in an instance; users of the original rely on the path. */
export const USER_DATA_DIR = '/home/kernel/user-data'

/** Where the browser puts what it downloads; users of the original rely on this path, too. */
export const DOWNLOADS_DIR = '/home/kernel/Downloads'

const FEATURES_OFF = [
  'Translate', // no bar that asks to translate the page
  'OptimizationHints',
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

/** The command line for a session's browser. `extra` comes last, so that it wins. */
export function chromiumFlags(size: { width: number; height: number }, extra: readonly string[]): string[] {
  return [
    // Control: a pipe for the agent, and a port inside the sandbox for clients. The port is a free one, for pages scan the well-known.
    '--remote-debugging-pipe',
    '--remote-debugging-port=0',
    '--enable-unsafe-extension-debugging', // Extensions.loadUnpacked over the pipe: no restart for an extension
    `--user-data-dir=${USER_DATA_DIR}`,
    '--no-first-run',
    '--no-default-browser-check',
    '--password-store=basic', // no key ring to wait for
    // Nothing on its own account: what leaves the instance is what the caller's pages ask for.
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-domain-reliability',
    '--disable-sync',
    '--disable-default-apps',
    '--disable-breakpad',
    '--no-pings',
    `--disable-features=${FEATURES_OFF.join(',')}`,
    // Pages in the background keep their timers and frames: an agent works in several tabs.
    '--disable-background-timer-throttling',
    '--disable-backgrounding-occluded-windows',
    '--disable-renderer-backgrounding',
    '--disable-hang-monitor',
    '--disable-session-crashed-bubble',
    '--hide-crash-restore-bubble',
    // A user's browser has no navigator.webdriver; the agent's pipe would set it. (The warning bar this flag brings is off by policy.)
    '--disable-blink-features=AutomationControlled',
    // There is no GPU: frames are drawn in software, and WebGL works through SwiftShader rather than not at all.
    '--enable-unsafe-swiftshader',
    '--window-position=0,0',
    `--window-size=${size.width},${size.height}`,
    '--start-maximized',
    ...extra,
    'about:blank',
  ]
}
