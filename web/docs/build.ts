// Builds the documentation into .cob/docs when its sources have changed: what control/service/system/docs.ts serves. Safe to run at the same time as others.
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { hashOf, isBuilt, replace } from '../built.ts'

const OUT = join(PACKAGE_DIR, '.cob/docs')
const SEARCH = join(PACKAGE_DIR, 'src/control/service/system/docs-search.ts')
/** Limit on one build: it takes about ten seconds. */
const BUILD_MS = 300_000

/** Builds it, unless it is built from these sources already. Returns the folder. @throws when a link between pages leads nowhere */
export async function buildDocs(): Promise<string> {
  const tag = hashOf([join(PACKAGE_DIR, 'docs'), import.meta.dirname, SEARCH]).digest('hex')
  if (isBuilt(OUT, tag)) return join(OUT, 'files')
  const made = `${OUT}.${randomBytes(6).toString('hex')}`
  try {
    // A process of its own: VitePress keeps its configuration in globals.
    await promisify(execFile)(process.execPath, ['--disable-warning=ExperimentalWarning', join(import.meta.dirname, 'vitepress.ts'), made], {
      timeout: BUILD_MS,
    })
    writeFileSync(join(made, '.tag'), tag)
    replace(OUT, made)
  } finally {
    rmSync(made, { recursive: true, force: true })
  }
  return join(OUT, 'files')
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) await buildDocs()
