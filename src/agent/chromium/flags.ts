// Chromium's command line, with the reason for each flag. The sandbox is never switched off.

/** Where the profile is in an instance. Users of the original depend on this path. */
export const USER_DATA_DIR = '/home/kernel/user-data'

/** Where the browser saves downloads. Users of the original depend on this path. */
export const DOWNLOADS_DIR = '/home/kernel/Downloads'

/** Chromium's value of the preference `session.restore_on_startup` for "continue where you left off". Without it, a start drops session cookies. */
export const LAST_SESSION = 1

/**
 * Time after a change within which Chromium has written the localStorage of pages: it starts one second after a first change, because of a flag below
 * (StorageAreaImpl::EnableAggressiveCommitDelay). Without that flag it is 5 seconds, and more for pages that change a lot.
 */
export const STORED_AFTER_MS = 1_250

/** For services that Chromium itself contacts. It refuses this port without a connection. */
const NOWHERE = 'http://127.0.0.1:9/'

/**
 * The server of lists of dangerous pages, megabytes for each session. No policy can turn them off: without Safe Browsing, many kinds of files are downloaded
 * only after a person has agreed.
 */
export const SAFE_BROWSING_HOST = 'safebrowsing.googleapis.com'

const FEATURES_OFF = [
  // A tab that shows a prerendered page has a main frame whose id is not the target's. Playwright then hangs in that tab, and so would `unseen.ts`.
  'Prerender2',
  'Prewarm', // the same for the search engine's page, with an unwanted request
  'PreconnectToSearch',
  'AimEnabled',
  'AvoidCorsURLLoaderRestartOnRedirect', // it aborts redirected requests of other origins while a client intercepts requests
  'AvoidUnnecessaryBeforeUnloadCheckSync', // otherwise a client that closes a page gets no event for its `beforeunload` dialog
  'ProcessPerSiteUpToMainFrameThreshold', // tabs of one site share no process, so a dialog or a breakpoint in one does not stop the others
  'LensOverlay',
  'WebUIReloadButton',
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
  // After each page, Chromium would start a renderer for another site: 6 % of the CPU of a short life, and 9 MB. Without it, the next site takes 48 ms instead of
  // 45 (docs/performance.md).
  'SpareRendererForSitePerProcess',
  'AutofillServerCommunication',
  'CertificateTransparencyComponentUpdater',
]

const FEATURES_ON = [
  'NetworkServiceInProcess2', // saves a process and 25 MB
  'CDPScreenshotNewSurface', // without it, screenshots of tabs in the background hang from some 15 tabs on
  'SkipListAccountsWithoutGaiaCookies', // no request for accounts
  // Chromium reads changed policies in a task of its lowest priority. Such tasks wait until it considers its start complete: without these settings, when its
  // first page has been idle for a second or two, which never happens with a page that loads all the time.
  'ImprovedStartupBestEffortDelay:StartupDelayVisibleTabTimeout/0s/StartupDelayFailsafeTimeout/500ms/StartupDelayIncludesSessionRestore/false',
]

/** Features that programs need, and that a page or a server can notice. */
const FOR_PROGRAMS = [
  // Pages in the background keep their timers and frames, because an agent works in several tabs.
  '--disable-background-timer-throttling',
  '--disable-backgrounding-occluded-windows',
  '--disable-renderer-backgrounding',
  '--disable-ipc-flooding-protection', // no limit on how often a page or a client navigates within the page
]
const FEATURES_OFF_FOR_PROGRAMS = [
  'HttpsUpgrades',
  'HttpsFirstBalancedModeAutoEnable', // an http address is not changed to https, for clients that intercept it
  'AcceptCHFrame', // it restarts a request that a client intercepts
  'IgnoreDuplicateNavs', // otherwise a client that waits for its second navigation to the same address would hang
  'PaintHolding', // no screenshot of the previous page
]

/** Reopens the tabs that were open last; an empty page if there were none. */
export const RESTORE = '--restore-last-session'

/**
 * The command line for a session's browser. `asPerson`: without flags that a page could notice and only programs need. Flags of Playwright, Puppeteer and
 * ChromeDriver that are missing here: test/data/launches.ts. `extra` comes last, so its flags override ours.
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
    // Disables the browser's own traffic: only the caller's pages use the network. --disable-background-networking cannot be used: with it, Chromium would
    // install no extensions by policy, and would still ask for accounts and components. docs/decisions/0073
    '--disable-component-update',
    `--component-updater=url-source=${NOWHERE}`,
    `--gaia-url=${NOWHERE}`,
    `--host-resolver-rules=MAP ${SAFE_BROWSING_HOST} ~NOTFOUND`,
    '--disable-domain-reliability',
    '--disable-sync',
    '--disable-default-apps',
    '--disable-breakpad',
    `--disable-features=${[...FEATURES_OFF, ...(asPerson ? [] : FEATURES_OFF_FOR_PROGRAMS)].join(',')}`,
    `--enable-features=${FEATURES_ON.join(',')}`,
    ...(asPerson ? [] : FOR_PROGRAMS),
    // Clients wait for the load of a page when they go back to it. A page from this cache does not load, so Playwright's goBack() would hang.
    '--disable-back-forward-cache',
    '--disable-auto-reload', // an error page is not reloaded automatically
    '--allow-pre-commit-input', // Chromium would drop input for a page that has not been drawn
    '--disable-search-engine-choice-screen',
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
    // With restored tabs, it would be one more tab.
    ...(extra.includes(RESTORE) ? [] : ['about:blank']),
  ]
}

/** Flags that the shell does not know, or that would ask for what it does not have. */
const NOT_OF_SHELL = new Set(['--start-maximized', '--no-first-run', '--no-default-browser-check', '--hide-crash-restore-bubble'])

/**
 * The flags that give a lean browser the proxy of policies.ts, which it does not read: an HTTP proxy on a port of this instance, and what it connects to directly.
 * Without a port: none.
 */
export const proxyFlags = (port: number | undefined, direct: readonly string[]): string[] =>
  port === undefined
    ? []
    : [
        `--proxy-server=http://127.0.0.1:${port}`,
        `--proxy-bypass-list=${[...direct, SAFE_BROWSING_HOST].join(';')}`,
        '--force-webrtc-ip-handling-policy=disable_non_proxied_udp',
      ]

/** The command line for a lean browser, the headless shell. */
export const shellFlags = (size: { width: number; height: number }, userAgent: string, proxy: readonly string[]): string[] => [
  `--user-agent=${userAgent}`,
  ...chromiumFlags(size, false, proxy).filter((each) => !NOT_OF_SHELL.has(each)),
]
