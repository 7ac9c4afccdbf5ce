// Builds small extensions as zip files.
import { makeCrx, rsaSigner, type Signer } from './crx.ts'
import { makeZip, type ZipEntry } from './zips.ts'

export const MANIFEST = { manifest_version: 3, name: 'Marker', version: '1.0' }

/** A zip with these files and `manifest.json`; with `manifest` null it has no manifest. */
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

/** An extension that marks each page with its name and with the answer of its service worker, which counts pages. */
export const markingExtension = (name: string): Buffer =>
  extensionZip(
    {
      'mark.js': `const root = document.documentElement
root.dataset[${JSON.stringify(name)}] = 'marked'
chrome.runtime.sendMessage('ping').then((answer) => (root.dataset[${JSON.stringify(`${name}Worker`)}] = answer))`,
      'worker.js': `chrome.runtime.onMessage.addListener((message, sender, answer) => {
  chrome.storage.local.get({ pages: 0 }).then(async ({ pages }) => {
    await chrome.storage.local.set({ pages: pages + 1 })
    answer('page ' + (pages + 1))
  })
  return true
})`,
    },
    {
      manifest_version: 3,
      name,
      version: '1.0',
      permissions: ['storage'],
      host_permissions: ['<all_urls>'],
      background: { service_worker: 'worker.js' },
      content_scripts: [{ matches: ['<all_urls>'], js: ['mark.js'], run_at: 'document_start' }],
    },
  )

/** The manifest of an extension that only a policy can install. */
export const BLOCKING_MANIFEST = {
  ...MANIFEST,
  permissions: ['webRequest', 'webRequestBlocking'],
  host_permissions: ['<all_urls>'],
  background: { service_worker: 'worker.js' },
}

/** The archive of an extension that a policy installs: its files, its .crx and an update.xml. */
export function policyExtension(files: Record<string, string>, manifest: object, signer: Signer = rsaSigner(), update = '<gupdate/>'): Buffer {
  const crx = makeCrx(extensionZip(files, manifest), [signer])
  return makeZip([
    { name: 'manifest.json', content: JSON.stringify(manifest) },
    { name: 'update.xml', content: update },
    { name: "it's & an <extension>.crx", content: crx },
    ...Object.entries(files).map(([name, content]): ZipEntry => ({ name, content })),
  ])
}

/** An extension that marks each page with its name, and blocks requests to addresses with `block-<name>`. */
export const blockingExtension = (name: string, signer?: Signer, update?: string): Buffer =>
  policyExtension(
    {
      'mark.js': `document.documentElement.dataset[${JSON.stringify(name)}] = 'marked'`,
      'worker.js': `const cancel = ({ url }) => ({ cancel: url.includes(${JSON.stringify(`block-${name}`)}) })
chrome.webRequest.onBeforeRequest.addListener(cancel, { urls: ['<all_urls>'] }, ['blocking'])`,
    },
    { ...BLOCKING_MANIFEST, name, content_scripts: [{ matches: ['<all_urls>'], js: ['mark.js'], run_at: 'document_start' }] },
    signer,
    update,
  )
