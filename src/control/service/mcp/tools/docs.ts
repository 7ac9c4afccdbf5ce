// search_docs: the documentation of this installation.
import { z } from 'zod'
import { textResult } from '../results.ts'
import { single, type Tool } from '../tool.ts'

/** Finds sections of the documentation, best first. */
export type SearchDocs = (query: string, limit: number) => Promise<{ title: string; path: string; heading: string; excerpt: string }[]>

const RESULTS = 10

export const searchDocsTool = (search: SearchDocs): Tool =>
  single(
    {
      name: 'search_docs',
      toolset: 'docs',
      title: 'Search the documentation',
      description: 'Search the documentation of this service: guides, settings, limits, and how its features work.',
      hints: { readOnlyHint: true, destructiveHint: false, idempotentHint: true },
      hasProject: false,
      needs: ['query'],
      fields: { query: z.string().trim().min(1).max(1000).describe('What you want to know, in a few words.') },
    },
    async ({ query }) => {
      const found = await search(query, RESULTS)
      if (found.length === 0) return textResult('Nothing in the documentation matches. Try other words.')
      return textResult(
        found.map(({ title, heading, path, excerpt }) => `## ${title}${heading === '' ? '' : `: ${heading}`}\n${path}\n\n${excerpt}`).join('\n\n'),
      )
    },
  )
