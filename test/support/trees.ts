// Creates and compares file trees on disk.
import { mkdtempSync, readFileSync, readdirSync, readlinkSync, rmSync, lstatSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A temporary folder; disposing removes it. */
export function tempDir(): { path: string } & Disposable {
  const path = mkdtempSync(join(tmpdir(), 'cob-files-'))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

/** Everything below a folder, by relative name: a file's text, `-> target` for a link, `/` for a folder, and the permissions. */
export function treeOf(root: string, at = ''): Record<string, string> {
  const found: Record<string, string> = {}
  for (const name of readdirSync(join(root, at)).sort()) {
    const path = join(at, name)
    const stats = lstatSync(join(root, path))
    const mode = (stats.mode & 0o777).toString(8)
    if (stats.isDirectory()) Object.assign(found, { [path]: `/ ${mode}` }, treeOf(root, path))
    else if (stats.isSymbolicLink()) found[path] = `-> ${readlinkSync(join(root, path))}`
    else found[path] = `${stats.isFile() ? readFileSync(join(root, path), 'latin1') : 'special'} ${mode}`
  }
  return found
}
