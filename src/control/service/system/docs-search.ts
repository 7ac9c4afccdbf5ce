// Searching the documentation inside the service: for tools of agents. The pages search by themselves, with the same index (docs/find.ts).
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { openIndex, type DocsHit } from './docs/find.ts'
import { site } from './docs/site.ts'

export type { DocsHit } from './docs/find.ts'

let opened: Promise<ReturnType<typeof openIndex>> | undefined

/** Sections of the documentation, best first. `path` is an address below the service's origin; with `.md` before its anchor it is the page as Markdown. */
export async function search(query: string, limit: number): Promise<DocsHit[]> {
  opened ??= open().catch((error: unknown) => {
    opened = undefined
    throw error
  })
  return (await opened)(query, limit)
}

async function open(): Promise<ReturnType<typeof openIndex>> {
  const { gzip } = (await site()).get('/docs/assets/index.json')!
  return openIndex((await promisify(gunzip)(gzip)).toString())
}
