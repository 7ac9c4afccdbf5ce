// Builds the dashboard, and the pages that stand alone, into .cob/web when their sources have changed: what control/service/dashboard serves. Safe to run at the same time as others.
import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { build } from 'vite'
import { contracts } from '../src/control/modules.ts'
import { PACKAGE_DIR } from '../src/base/paths.ts'
import { hashOf, isBuilt, replace } from './built.ts'
import { standalone } from './vite.config.ts'

const WEB = import.meta.dirname
const OUT = join(PACKAGE_DIR, '.cob/web')
/** Smaller files gain nothing. */
const COMPRESS_FROM_BYTES = 512

/** Changes with everything that the built files depend on. */
function sourcesTag(): string {
  const sources = readdirSync(WEB).filter((name) => name !== 'docs')
  const hash = hashOf(
    sources.map((name) => join(WEB, name)),
    (name) => !/\.(md|test\.ts)$/.test(name),
  )
  // Paths and rights come from the contracts; nothing else of them is in the bundle.
  for (const { id, method, path, right } of contracts.flatMap((group) => Object.values(group))) hash.update(`${id} ${method} ${path} ${right}\0`)
  return hash.digest('hex')
}

/** Builds it, unless it is built from these sources already. Returns the folder. */
export async function buildDashboard(): Promise<string> {
  const tag = sourcesTag()
  if (isBuilt(OUT, tag)) return join(OUT, 'files')
  // Built beside it and moved there whole, so that a service that starts meanwhile never reads half of it.
  const made = `${OUT}.${randomBytes(6).toString('hex')}`
  try {
    const outDir = join(made, 'files')
    await build({ configFile: join(WEB, 'vite.config.ts'), configLoader: 'native', logLevel: 'warn', build: { outDir } })
    await build({ ...standalone, logLevel: 'warn', build: { ...standalone.build, outDir } })
    await compress(join(made, 'files'))
    writeFileSync(join(made, '.tag'), tag)
    replace(OUT, made)
  } finally {
    rmSync(made, { recursive: true, force: true })
  }
  return join(OUT, 'files')
}

/** Beside each file its brotli and gzip, made once with the most effort. */
async function compress(folder: string): Promise<void> {
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    if (!entry.isFile() || !/\.(js|css|svg|json)$/.test(path)) continue
    const bytes = readFileSync(path)
    if (bytes.length < COMPRESS_FROM_BYTES) continue
    writeFileSync(`${path}.br`, await promisify(brotliCompress)(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }))
    writeFileSync(`${path}.gz`, await promisify(gzip)(bytes, { level: 9 }))
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) await buildDashboard()
