// Fetches extensions from the Chrome Web Store, as Chromium does, or from another server that answers like its update service.
import { MAX_EXTENSION_BYTES } from '../../../agent/extensions/contract.ts'
import { BadCrx, readCrx } from '../../../base/crx.ts'
import { Gathered } from '../../../base/gathered.ts'
import { Slots } from '../../../base/slots.ts'
import { Fault, fault } from '../../../http/fault.ts'

/** Limit on one extension, from the first request to its last byte. */
const STORE_MS = 60_000
/** The update service redirects once, to the server that has the file. */
const MAX_REDIRECTS = 5
/** A header may be as long as Chromium allows, before a zip of the largest size. */
const MAX_CRX_BYTES = MAX_EXTENSION_BYTES + 256 * 1024 + 12
/** Each extension is in memory twice while its signatures are checked. */
const AT_ONCE = 2

type Os = 'win' | 'mac' | 'linux'

/** The addresses of extensions' pages: `/detail/<title>/<id>`, and below `/webstore` on the old host. The title may be absent. */
const PAGES: Record<string, RegExp> = {
  'chromewebstore.google.com': /^\/detail\/(?:[^/]+\/)?([a-p]{32})\/?$/,
  'chrome.google.com': /^\/webstore\/detail\/(?:[^/]+\/)?([a-p]{32})\/?$/,
}

/** The extension's id in an address of the Chrome Web Store. @throws 400 that names `url` */
function idInStore(url: string): string {
  const { protocol, hostname, pathname } = URL.canParse(url) ? new URL(url) : { protocol: '', hostname: '', pathname: '' }
  const id = /^https?:$/.test(protocol) && Object.hasOwn(PAGES, hostname) ? PAGES[hostname]!.exec(pathname)?.[1] : undefined
  if (id === undefined) throw fault.field('url', 'must be the page of an extension, such as https://chromewebstore.google.com/detail/name/id')
  return id
}

/** The zip of the extension whose page has this address. @throws 400 for another address; 404 when the store has none; 502 when its answer is invalid */
export type FetchFromStore = (url: string, os: Os, signal: AbortSignal) => Promise<Buffer>

/** Fetches from the store whose update service is at `base`. */
export function chromeStore(base: string): FetchFromStore {
  const slots = new Slots(AT_ONCE)
  return async (url, os, signal) => {
    const id = idInStore(url)
    const late = AbortSignal.any([signal, AbortSignal.timeout(STORE_MS)])
    try {
      return await slots.run(async () => (await readCrx(await download(base, id, os, late), id)).zip, late)
    } catch (error) {
      if (signal.aborted || error instanceof Fault) throw error
      if (error instanceof BadCrx) throw fault.badGateway(`what the Chrome Web Store sent ${error.message}`)
      throw late.aborted ? fault.badGateway(`the Chrome Web Store has not sent the extension within ${STORE_MS} ms`) : error
    }
  }
}

/** The query that the newest browsers send; for an older browser, the store refuses extensions that need newer ones. */
const asked = (id: string, os: Os) => ({
  response: 'redirect',
  os,
  arch: 'x64',
  os_arch: 'x86_64',
  nacl_arch: 'x86-64',
  prod: 'chromiumcrx',
  prodchannel: 'unknown',
  prodversion: '9999.0.9999.0',
  acceptformat: 'crx3',
  x: `id=${id}&uc`,
})

async function download(base: string, id: string, os: Os, signal: AbortSignal): Promise<Buffer> {
  let url = new URL(base)
  for (const [name, value] of Object.entries(asked(id, os))) url.searchParams.set(name, value)
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
    const response = await fetch(url, { redirect: 'manual', signal, headers: { accept: '*/*' } }).catch((cause: unknown) => {
      signal.throwIfAborted()
      throw new Fault('bad_gateway', 'the Chrome Web Store cannot be reached', { headers: { 'x-should-retry': 'false' }, cause })
    })
    const location = response.headers.get('location')
    if (response.status === 200) return bytesOf(response, signal)
    await response.body?.cancel()
    if (response.status === 204 || response.status === 404) throw fault.notFound('extension in the Chrome Web Store', id)
    if (response.status < 300 || response.status > 399 || location === null) throw fault.badGateway(`the Chrome Web Store answered ${response.status}`)
    const next = URL.canParse(location, url.href) ? new URL(location, url) : undefined
    // The store may not redirect to a service of our own network over plain HTTP.
    if (!next || (next.protocol !== 'https:' && next.origin !== new URL(base).origin))
      throw fault.badGateway('the Chrome Web Store redirects to an address that is not taken')
    url = next
  }
  throw fault.badGateway(`the Chrome Web Store redirects more than ${MAX_REDIRECTS} times`)
}

async function bytesOf(response: Response, signal: AbortSignal): Promise<Buffer> {
  const body = new Gathered()
  try {
    for await (const chunk of response.body ?? []) {
      if (body.length + chunk.length > MAX_CRX_BYTES) throw fault.badGateway(`the extension is larger than ${MAX_CRX_BYTES} bytes`)
      body.add(Buffer.from(chunk))
    }
  } catch (error) {
    signal.throwIfAborted()
    throw error instanceof Fault ? error : fault.badGateway('the answer of the Chrome Web Store broke off')
  }
  return body.bytes
}
