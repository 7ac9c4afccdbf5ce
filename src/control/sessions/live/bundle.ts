// The files of the live view's page: our script bundled with noVNC, and the style sheet. Made once from the files of this installation.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { bundling } from '../../../base/bundler.ts'
import { PACKAGE_DIR } from '../../../base/paths.ts'

const PAGE_DIR = join(import.meta.dirname, 'page')
/** The list of events, which the page of replays has, too. */
const EVENTS_DIR = join(import.meta.dirname, '../telemetry/page')
const NOVNC_DIR = join(PACKAGE_DIR, 'node_modules/@novnc/novnc')

export interface Asset {
  type: string
  plain: Buffer
  gzip: Buffer
  brotli: Buffer
}

export interface Bundle {
  /** A hash of the content, so that browsers may cache URLs with it for ever. */
  tag: string
  files: Map<string, Asset>
}

/** One script is one round trip; noVNC's fifty modules would take eight or more. */
export async function makeBundle(): Promise<Bundle> {
  const { version } = JSON.parse(readFileSync(join(NOVNC_DIR, 'package.json'), 'utf8')) as { version: string }
  const { outputFiles } = await bundling((esbuild) =>
    esbuild.build({
      entryPoints: [join(PAGE_DIR, 'view.js')],
      bundle: true,
      write: false,
      minify: true,
      format: 'esm',
      target: 'es2022',
      nodePaths: [join(PACKAGE_DIR, 'node_modules')],
      // The package exports its main module only.
      alias: { 'novnc-core': join(NOVNC_DIR, 'core') },
      banner: { js: `/* With noVNC ${version} (MPL-2.0, https://github.com/novnc/noVNC) and pako (MIT). */` },
      logLevel: 'silent',
    }),
  )
  const files = new Map([
    ['view.js', await asset('text/javascript; charset=utf-8', Buffer.from(outputFiles[0]!.contents))],
    [
      'view.css',
      await asset('text/css; charset=utf-8', Buffer.concat([readFileSync(join(PAGE_DIR, 'view.css')), readFileSync(join(EVENTS_DIR, 'events.css'))])),
    ],
  ])
  const hash = createHash('sha256')
  for (const { plain } of files.values()) hash.update(plain)
  return { tag: hash.digest('hex').slice(0, 16), files }
}

async function asset(type: string, plain: Buffer): Promise<Asset> {
  const [zipped, brotli] = await Promise.all([promisify(gzip)(plain), promisify(brotliCompress)(plain, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } })])
  return { type, plain, gzip: zipped, brotli }
}
