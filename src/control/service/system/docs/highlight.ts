// Code as HTML, with a class for each kind of word. The package is required, not imported: its types would bring those of the DOM into every file of ours.
import { createRequire } from 'node:module'

interface Highlighter {
  registerLanguage(name: string, language: unknown): void
  highlight(code: string, options: { language: string }): { value: string }
}

const require = createRequire(import.meta.url)
const highlighter = require('highlight.js/lib/core') as Highlighter
const LANGUAGES: Record<string, string> = { sh: 'bash', js: 'javascript', json: 'json', python: 'python', ts: 'typescript', yaml: 'yaml' }
for (const name of Object.values(LANGUAGES)) highlighter.registerLanguage(name, require(`highlight.js/lib/languages/${name}`))

/** Undefined when the language, the word after the three backticks, is none of those that are shown in colours. */
export const highlight = (code: string, word: string): string | undefined =>
  LANGUAGES[word] === undefined ? undefined : highlighter.highlight(code, { language: LANGUAGES[word] }).value
