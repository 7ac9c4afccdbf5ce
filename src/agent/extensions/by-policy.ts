// Files of extensions that a managed policy installs. Chromium reads the signed .crx by a file address, so nothing is served. The archive's own update.xml is
// not read: its content follows from the .crx, and its addresses are never used.
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { BadCrx, readCrx } from '../../base/crx.ts'
import { checkPacked } from '../../base/extension-zip.ts'
import { BadArchive } from '../../base/archive/contents.ts'
import { bytesSource } from '../../base/archive/zip.ts'
import { fault } from '../../http/fault.ts'
import { openRegular } from '../fs/read.ts'
import { MAX_EXTENSION_BYTES } from './contract.ts'

/** An extension in a policy. */
export interface Forced {
  id: string
  /** The address of its update.xml. */
  updateUrl: string
}

const UPDATE = 'update.xml'

/** Checks `crx` in the folder `from`, and writes the update.xml beside it, for the time when the folder is at `place`. @throws 400 that names `field` */
export async function prepareForced(from: string, place: string, crx: string, field: string, signal: AbortSignal): Promise<Forced> {
  const { handle, stats } = await openRegular(join(from, crx), false)
  try {
    if (stats.size > MAX_EXTENSION_BYTES) throw fault.field(field, `has a .crx file of more than ${MAX_EXTENSION_BYTES} bytes`)
    const file = Buffer.alloc(stats.size)
    // If a program of the session makes it shorter meanwhile, its signatures do not hold.
    await handle.read(file, 0, file.length, 0)
    const { id, zip } = await readCrx(file)
    const version = await checkPacked(bytesSource(zip), signal)
    await rm(join(from, UPDATE))
    await writeFile(join(from, UPDATE), updateManifest(id, version, pathToFileURL(join(place, crx)).href))
    return { id, updateUrl: pathToFileURL(join(place, UPDATE)).href }
  } catch (error) {
    throw error instanceof BadCrx || error instanceof BadArchive ? fault.field(field, `has a .crx file that ${error.message}`) : error
  } finally {
    await handle.close()
  }
}

/** In the form of update servers. In an address only `&` has a meaning in XML: the others are percent-encoded. */
const updateManifest = (id: string, version: string, url: string) => `<?xml version="1.0" encoding="UTF-8"?>
<gupdate xmlns="http://www.google.com/update2/response" protocol="2.0">
  <app appid="${id}"><updatecheck codebase="${url.replaceAll('&', '&amp;')}" version="${version}"/></app>
</gupdate>
`
