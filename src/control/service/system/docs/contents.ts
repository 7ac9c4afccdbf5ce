// The pages of the documentation in their order, and what each is about. A page that is not in this list fails a test.

/** A Markdown file of docs/, without its ending, and one sentence for lists of pages and for agents. */
type Entry = readonly [file: string, about: string]

export interface Group {
  name: string
  pages: readonly Entry[]
}

export const CONTENTS: readonly Group[] = [
  {
    name: 'Start',
    pages: [
      ['start', 'From nothing to a first session: two commands, then a few lines of TypeScript, Python or curl.'],
      ['quickstarts/playwright', 'Drive a session with Playwright for TypeScript.'],
      ['quickstarts/puppeteer', 'Drive a session with Puppeteer.'],
      ['quickstarts/python', 'Drive a session with Playwright for Python.'],
      ['quickstarts/cdp', 'Speak the Chrome DevTools Protocol yourself, without a library.'],
      ['quickstarts/browser-use', 'Give a session to an agent of browser-use.'],
      ['quickstarts/stagehand', 'Act and extract in words with Stagehand.'],
      ['quickstarts/ai-sdk', 'Browser tools for a model, with the AI SDK.'],
      ['quickstarts/computer-use-anthropic', 'A computer-use loop with the API of Anthropic: screenshots, mouse and keyboard.'],
      ['quickstarts/computer-use-openai', 'A computer-use loop with the API of OpenAI: screenshots, mouse and keyboard.'],
      ['dashboard', 'See what runs in a browser: sessions, files, terminals, logs, replays.'],
      ['clients', 'Which SDKs and tools have been tried, in which releases, and what differs between them.'],
      ['missing-operations', 'Which calls of the newest SDK this version does not have yet.'],
    ],
  },
  {
    name: 'Browsers',
    pages: [
      ['computer-controls', 'How mouse, keyboard, clipboard and screen behave.'],
      ['live-view', 'Watch a session and step in.'],
      ['replays', 'Record a session as a video.'],
      ['telemetry', 'Requests, console lines, clicks and calls of a session: live, archived, exported.'],
      ['profiles', 'Cookies, storage and tabs of one session for the next.'],
      ['extensions', 'Extensions of Chromium in sessions.'],
      ['pools', 'Browsers of one configuration that are ready when you need them.'],
      ['proxies', 'The way of a session to the internet through proxies of yours.'],
      ['network', 'Which hosts a session may reach.'],
      ['stealth', 'What pages can notice of a session.'],
      ['standby', 'Sessions that sleep while nothing uses them.'],
    ],
  },
  {
    name: 'Automate',
    pages: [
      ['mcp', 'Tools for agents by the Model Context Protocol, at /mcp.'],
      ['apps', 'Your own code next to the browsers: deploy, invoke, follow logs.'],
      ['managed-auth', 'Profiles that stay logged in at a site.'],
      ['hosted-login', 'The page on which people log in.'],
      ['credentials', 'Stored credentials, one-time codes, and the keys that encrypt what is stored.'],
      ['credential-providers', 'Passwords from 1Password, Bitwarden, Vault, or a program of yours.'],
    ],
  },
  {
    name: 'Operate',
    pages: [
      ['operations', 'The data directory, crashes, Postgres, buckets, backup, limits, metrics.'],
      ['settings', 'Every setting of the service.'],
      ['sign-in', 'How people sign in: keys, an identity provider, roles, OAuth.'],
      ['organization', 'Keys, projects, limits and the audit log.'],
      ['docker', 'Sessions as Docker containers; the service by docker compose.'],
      ['kubernetes', 'Sessions as pods of Kubernetes.'],
      ['security', 'The sandbox, its limits, what is tested, and what is not protected against.'],
      ['scaling', 'What each session costs the service, and what breaks first.'],
      ['performance', 'Measured figures, and how to measure again.'],
    ],
  },
]

/** The folder of decisions, which are listed by their titles. */
export const DECISIONS = 'decisions'

/** All pages of the list, in its order. */
export const listedPages = (): Entry[] => CONTENTS.flatMap(({ pages }) => pages)
