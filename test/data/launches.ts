// The flags with which Playwright, Puppeteer and ChromeDriver start Chromium, and what Cob does with each. test/launches.test.ts reads the flags from the published
// packages. It fails when a flag is missing here, or when no package has a flag of this list any more.

/**
 * taken: every session has the flag. programs: only sessions without stealth have it, because a page or a server can notice it. refused: no session has it, for this
 * reason.
 */
export type Verdict = 'taken' | 'programs' | { refused: string }

const refused = (reason: string): Verdict => ({ refused: reason })
const OTHER_SYSTEM = refused('it does something on macOS, Windows or in Edge only')

export const FLAGS: Readonly<Record<string, Verdict>> = {
  '--allow-pre-commit-input': 'taken',
  '--disable-back-forward-cache': 'taken',
  '--disable-background-networking': refused('Chromium would install no extensions by policy (docs/decisions/0073)'),
  '--disable-background-timer-throttling': 'programs',
  '--disable-backgrounding-occluded-windows': 'programs',
  '--disable-breakpad': 'taken',
  '--disable-client-side-phishing-detection': refused('its model is never downloaded'),
  '--disable-component-extensions-with-background-pages': refused("Debian's Chromium has none"),
  '--disable-component-update': 'taken',
  '--disable-crash-reporter': refused('only chromium-headless-shell reads it'),
  '--disable-default-apps': 'taken',
  '--disable-dev-shm-usage': refused('an instance has a /dev/shm of its own, as large as its memory allows'),
  '--disable-edgeupdater': OTHER_SYSTEM,
  '--disable-extensions': refused('sessions have extensions'),
  '--disable-field-trial-config': refused("Debian's Chromium is built without that configuration"),
  '--disable-hang-monitor': 'taken',
  '--disable-infobars': refused('a policy hides the warning bar (policies.ts)'),
  '--disable-ipc-flooding-protection': 'programs',
  '--disable-popup-blocking': refused('a policy does it, so that sessions with stealth and callers can change it (policies.ts)'),
  '--disable-prompt-on-repost': refused('a reload by a client does not ask; for F5 at the screen a person is asked, too, before a form is sent again'),
  '--disable-renderer-backgrounding': 'programs',
  '--disable-search-engine-choice-screen': 'taken',
  '--disable-stack-profiler': OTHER_SYSTEM,
  '--disable-sync': 'taken',
  '--disable-updater-scheduler': OTHER_SYSTEM,
  '--do-not-de-elevate': OTHER_SYSTEM,
  '--edge-skip-compat-layer-relaunch': OTHER_SYSTEM,
  '--enable-automation': refused('navigator.webdriver would be true'),
  '--enable-logging': refused("the agent reads Chromium's standard error as it is"),
  '--enable-unsafe-swiftshader': 'taken',
  '--export-tagged-pdf': refused('a client asks for it in Page.printToPDF'),
  '--force-color-profile': refused('the display has no colour profile, so it is sRGB'),
  '--generate-pdf-document-outline': refused('a client asks for it in Page.printToPDF'),
  '--log-level': refused("the agent reads Chromium's standard error as it is"),
  '--metrics-recording-only': refused("Debian's Chromium reports no metrics unless a person agrees"),
  '--no-default-browser-check': 'taken',
  '--no-first-run': 'taken',
  '--no-service-autorun': OTHER_SYSTEM,
  '--no-startup-window': refused('a session begins with a window'),
  '--password-store': 'taken',
  '--remote-debugging-pipe': 'taken',
  '--remote-debugging-port': 'taken',
  '--test-type': refused('it hides warnings that people see'),
  '--unsafely-disable-devtools-self-xss-warnings': refused('only a person who pastes into DevTools sees that warning'),
  '--use-mock-keychain': OTHER_SYSTEM,
  '--user-data-dir': 'taken',
}

/** Names in `--disable-features`. */
export const FEATURES_OFF: Readonly<Record<string, Verdict>> = {
  AcceptCHFrame: 'programs',
  AimEnabled: 'taken',
  AvoidCorsURLLoaderRestartOnRedirect: 'taken',
  AvoidUnnecessaryBeforeUnloadCheckSync: 'taken',
  DestroyProfileOnBrowserClose: refused('a running Chromium that opens another profile is to end the one before (hand-over.ts)'),
  HttpsFirstBalancedModeAutoEnable: 'programs',
  HttpsUpgrades: 'programs',
  IgnoreDuplicateNavs: 'programs',
  IsolateSandboxedIframes: refused('it keeps a page from its sandboxed frames, and clients of today find frames in other processes'),
  LensOverlay: 'taken',
  MediaRouter: 'taken',
  NetworkTimeServiceQuerying: refused('a policy does it (policies.ts)'),
  OptimizationHints: refused('pages would miss LanguageDetector; its downloads are off otherwise'),
  PaintHolding: 'programs',
  PreconnectToSearch: 'taken',
  Prewarm: 'taken',
  ProcessPerSiteUpToMainFrameThreshold: 'taken',
  TcpPortRandomizationWin: OTHER_SYSTEM,
  ThirdPartyStoragePartitioning: refused('sites see it, and a profile keeps what frames of other sites have stored'),
  Translate: 'taken',
  WebUIOmniboxAimPopup: 'taken',
  WebUIOmniboxPopup: 'taken',
  WebUIReloadButton: 'taken',
  msEdgeUpdateLaunchServicesPreferredVersion: OTHER_SYSTEM,
  msForceBrowserSignIn: OTHER_SYSTEM,
}

/** Names in `--enable-features`. */
export const FEATURES_ON: Readonly<Record<string, Verdict>> = {
  CDPScreenshotNewSurface: 'taken',
  PdfOopif: refused('this Chromium has it on'),
  SkipListAccountsWithoutGaiaCookies: 'taken',
}
