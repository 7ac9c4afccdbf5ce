// search_docs: the documentation of this installation.
import * as z from 'zod'
import { tool, type Tool } from '../tool.ts'

/** Finds sections of the documentation, best first. */
export type SearchDocs = (query: string, limit: number) => Promise<{ title: string; path: string; heading: string; excerpt: string }[]>

const RESULTS = 10

export const searchDocsTool = (search: SearchDocs): Tool =>
  tool({
    name: 'search_docs',
    title: 'Search the documentation',
    description: 'Search the documentation of this service: guides, settings, limits, and how its features work.',
    hints: { readOnlyHint: true, destructiveHint: false, idempotentHint: true },
    hasProject: false,
    fields: { query: 'What you want to know, in a few words.' },
    does: {
      own: { query: z.string().trim().min(1).max(1000) },
      async run({ query }) {
        const found = await search(query as string, RESULTS)
        const texts = found.map(({ title, heading, path, excerpt }) => `## ${title}${heading === '' ? '' : `: ${heading}`}\n${path}\n\n${excerpt}`)
        return texts.join('\n\n') || 'Nothing in the documentation matches. Try other words.'
      },
    },
  })
