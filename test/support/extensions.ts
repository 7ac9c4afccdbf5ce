// Small extensions as zips, made byte by byte.
import { makeZip, type ZipEntry } from './zips.ts'

export const MANIFEST = { manifest_version: 3, name: 'Marker', version: '1.0' }

/** A zip with these files beside `manifest.json`; without one when `manifest` is null. */
export const extensionZip = (files: Record<string, string> = {}, manifest: object | string | null = MANIFEST): Buffer =>
  makeZip([
    ...(manifest === null ? [] : [{ name: 'manifest.json', content: typeof manifest === 'string' ? manifest : JSON.stringify(manifest) }]),
    ...Object.entries(files).map(([name, content]): ZipEntry => ({ name, content })),
  ])

/** The form of an upload. */
export function extensionForm(zip: Uint8Array, name?: string): FormData {
  const form = new FormData()
  form.set('file', new Blob([new Uint8Array(zip)]), 'extension.zip')
  if (name !== undefined) form.set('name', name)
  return form
}
