// A program that builds the documentation, sends it to its parent, and ends.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { bundling } from '../../../../base/bundler.ts'
import { PACKAGE_DIR } from '../../../../base/paths.ts'
import { buildSite } from './build.ts'

/** A part as it is kept: compressed. */
export interface BuiltPart {
  type: string
  gzip: Uint8Array
  /** Of the content. */
  tag: string
}

// The service has ended.
process.once('disconnect', () => process.exit())
const { outputFiles } = await bundling((esbuild) =>
  esbuild.build({
    entryPoints: { docs: join(import.meta.dirname, 'docs.js'), search: join(import.meta.dirname, 'search.js') },
    outdir: '/',
    bundle: true,
    write: false,
    // Loaded when it is needed.
    external: ['/docs/assets/*'],
    minify: true,
    format: 'esm',
    target: 'es2022',
    nodePaths: [join(PACKAGE_DIR, 'node_modules')],
    logLevel: 'silent',
  }),
)
const parts = buildSite()
for (const { path, text } of outputFiles) parts.set(`/docs/assets${path}`, { type: 'text/javascript; charset=utf-8', body: text })
const styles = ['docs.css', 'article.css', 'search.css'].map((name) => readFileSync(join(import.meta.dirname, name), 'utf8'))
parts.set('/docs/assets/docs.css', { type: 'text/css; charset=utf-8', body: styles.join('\n') })
const built = [...parts].map(([path, { type, body }]): [string, BuiltPart] => [
  path,
  { type, gzip: gzipSync(body), tag: createHash('sha256').update(body).digest('base64url').slice(0, 22) },
])
process.send!(built, () => process.exit())
