// esbuild, which works in a child process that all of its users in this process share.
import { readFile } from 'node:fs/promises'
import { dirname, extname } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Loader, Plugin } from 'esbuild'

let users = 0

/** Runs `work` with esbuild. Its child process ends with the last user; it would keep running otherwise. */
export async function bundling<T>(work: (esbuild: typeof import('esbuild')) => Promise<T>): Promise<T> {
  const esbuild = await import('esbuild')
  users++
  try {
    return await work(esbuild)
  } finally {
    if (--users === 0) await esbuild.stop()
  }
}

/** For esbuild's `define`, together with {@link ownPlace}: each file has its own values of these names; in the bundle they would be the bundle's. */
export const OWN_PLACE = {
  'import.meta.url': '__cob_url',
  'import.meta.filename': '__cob_filename',
  'import.meta.dirname': '__cob_dirname',
  __filename: '__cob_filename',
  __dirname: '__cob_dirname',
}
const constantsOf = (path: string): string =>
  Object.entries({ __cob_url: pathToFileURL(path).href, __cob_filename: path, __cob_dirname: dirname(path) })
    .map(([name, value]) => `const ${name} = ${JSON.stringify(value)};`)
    .join('')

const LOADERS: Record<string, Loader> = { ts: 'ts', tsx: 'tsx', mts: 'ts', cts: 'ts', js: 'js', mjs: 'js', cjs: 'js', jsx: 'jsx' }

/** Gives each file the values of {@link OWN_PLACE}. `seen` is its path where the bundle will run. */
export const ownPlace = (seen = (path: string): string => path): Plugin => ({
  name: 'own-place',
  setup(build) {
    build.onLoad({ filter: /\.([cm]?[jt]s|[jt]sx)$/ }, async ({ path }) => {
      const text = await readFile(path, 'utf8')
      const constants = /\bimport\s*\.\s*meta\b|\b__(file|dir)name\b/.test(text) ? constantsOf(seen(path)) : ''
      // On the first line, so that line numbers do not change; but after a `#!` line, which has to be first.
      const mark = /^#!.*/.exec(text)?.[0] ?? ''
      return { contents: mark === '' ? constants + text : `${mark}\n${constants}${text.slice(mark.length + 1)}`, loader: LOADERS[extname(path).slice(1)] }
    })
  },
})
