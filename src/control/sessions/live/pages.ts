// The HTML of the live view: the page itself, and pages that say why there is nothing to see.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Read at each start, like the script. */
const TEMPLATE = readFileSync(join(import.meta.dirname, 'page/view.html'), 'utf8')

/** Why a session ended, for viewers. The page contains all of these texts for the case that the session ends while it is open. */
const ENDINGS: Record<string, string> = {
  deleted: 'The owner of this session has ended it.',
  timeout: 'It timed out because nobody used it.',
  crashed: 'Its browser crashed.',
  lost: 'It was lost when the service crashed.',
  shutdown: 'The service was stopped.',
  released: 'It was given back to its pool.',
}

export const endingOf = (reason: string | null): string => ENDINGS[reason ?? ''] ?? 'It is closed.'

const escaped = (text: string): string => text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)

export interface LivePage {
  tag: string
  title: string
  /** The path that the page's own requests begin with. */
  base: string
  /** An address without the right to control, which can be shared; empty on a page that has no such right itself. */
  watchPath: string
}

export const livePage = ({ tag, title, base, watchPath }: LivePage): string => {
  const values: Record<string, string> = { tag, title, base, watch: watchPath, endings: JSON.stringify(ENDINGS) }
  return TEMPLATE.replaceAll(/\{\{(\w+)\}\}/g, (_, name: string) => escaped(values[name]!))
}

export const messagePage = (tag: string, heading: string, text: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<meta name="color-scheme" content="dark">
<title>${escaped(heading)}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/browser/live-view/${tag}/view.css">
</head>
<body class="message">
<main class="card">
<h1>${escaped(heading)}</h1>
<p>${escaped(text)}</p>
</main>
</body>
</html>
`
