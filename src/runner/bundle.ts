// Bundles a TypeScript entrypoint into one JavaScript file beside it. Packages are not bundled. JavaScript stays as it is.
import { existsSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { basename, dirname, extname, join } from 'node:path'
import type { BuildFailure, BuildOptions } from 'esbuild'
import { bundling, OWN_PLACE, ownPlace } from '../base/bundler.ts'
import { within } from '../base/wait.ts'
import type { Manifest } from './limits.ts'
import { BuildFailed, type Tools } from './tools.ts'

const BUNDLE_MS = 120_000

type Format = 'esm' | 'cjs'

/** Bundles `file` (below `code`) when it is TypeScript; returns the changed fields of the manifest. */
export async function bundleTypeScript(code: string, file: string, tools: Tools): Promise<Partial<Manifest>> {
  const extension = extname(file).toLowerCase()
  if (!['.ts', '.tsx', '.mts', '.cts'].includes(extension)) return {}
  tools.say(`bundling ${file}`)
  const format = formatOf(code, file, extension)
  try {
    return await bundle(code, file, format, tools)
  } catch (error) {
    if (format === 'cjs' && extension !== '.cts' && isTopLevelAwait(error)) return await bundle(code, file, 'esm', tools)
    throw error
  }
}

/** The module format that Node would assume. It matters because the SDK has one registry per format. */
function formatOf(code: string, file: string, extension: string): Format {
  if (extension === '.mts') return 'esm'
  if (extension === '.cts') return 'cjs'
  for (let folder = dirname(join(code, file)); ; folder = dirname(folder)) {
    const manifest = join(folder, 'package.json')
    if (existsSync(manifest)) {
      try {
        return (JSON.parse(readFileSync(manifest, 'utf8')) as { type?: string }).type === 'module' ? 'esm' : 'cjs'
      } catch (error) {
        throw new BuildFailed(`package.json is not JSON: ${(error as Error).message}`)
      }
    }
    if (folder === code) return 'cjs'
  }
}

async function bundle(code: string, file: string, format: Format, tools: Tools): Promise<Partial<Manifest>> {
  const output = join(dirname(file), `.cob-${basename(file, extname(file))}.${format === 'esm' ? 'mjs' : 'cjs'}`)
  const options: BuildOptions = {
    absWorkingDir: code,
    entryPoints: [join(code, file)],
    outfile: join(code, output),
    bundle: true,
    packages: 'external',
    platform: 'node',
    target: 'node24',
    format,
    sourcemap: 'linked',
    logLevel: 'silent',
    define: OWN_PLACE,
    plugins: [ownPlace()],
  }
  return bundling((esbuild) => built(esbuild))

  async function built(esbuild: typeof import('esbuild')): Promise<Partial<Manifest>> {
    try {
      const build = (more: BuildOptions = {}) => within('esbuild', BUNDLE_MS, esbuild.build({ ...options, ...more }), tools.signal)
      const { warnings } = await build()
      // Define `require` only in this case: otherwise the app's own code may declare that name.
      if (format === 'esm' && (await readFile(join(code, output), 'utf8')).includes('\nvar __require = ')) await build({ banner: { js: OWN_REQUIRE } })
      for (const text of await esbuild.formatMessages(warnings, { kind: 'warning' })) for (const line of text.trimEnd().split('\n')) tools.say(line)
      return { entrypoint: output, sourceMaps: true }
    } catch (error) {
      const { errors } = error as Partial<BuildFailure>
      if (!errors) throw error
      if (isTopLevelAwait(error) && format === 'cjs') throw error
      for (const text of await esbuild.formatMessages(errors, { kind: 'error' })) for (const line of text.trimEnd().split('\n')) tools.say(line)
      const said = errors.slice(0, 5).map(({ text, location }) => (location ? `${location.file}:${location.line}:${location.column}: ${text}` : text))
      throw new BuildFailed(`${file} could not be bundled: ${said.join('\n')}`, { cause: error })
    }
  }
}

/** For CommonJS files of the app that became part of an ES module, where there is no `require`. */
const OWN_REQUIRE = `import { createRequire as __cob_require } from 'node:module'; const require = __cob_require(import.meta.url);`

const isTopLevelAwait = (error: unknown): boolean =>
  ((error as Partial<BuildFailure>).errors ?? []).some(({ text }) => text.includes('Top-level await is currently not supported with the "cjs"'))
