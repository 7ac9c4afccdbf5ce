// Measures creates with a profile, an extension or a proxy, until a CDP client sees its effect. A bare Chromium, started by hand with the same flags and data, takes
// turns with them.
import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { join } from 'node:path'
import { chromiumFlags } from '../src/agent/chromium/flags.ts'
import { serviceUser } from '../src/base/user.ts'
import { sleep, until } from '../src/base/wait.ts'
import { markingExtension } from '../test/support/extensions.ts'
import { httpProxy, serveSockets, type TestProxy } from '../test/support/upstreams.ts'
import { SCREEN, startChromium } from './bare.ts'
import type { Bench } from './bench.ts'
import { openCdp, pageOf } from './cdp.ts'
import { row, timed, type Row } from './figures.ts'
import { ownFolder } from './programs.ts'
import type { Service } from './sessions.ts'

/** The site's name in profiles, inside a session and outside. */
const HOST = 'host.cob.internal'
/** Only the proxies can resolve this name. */
const SITE = 'site.test'
/** The sizes of the profiles' files, in MB. Half of each is random, as pictures and compressed answers are. */
const SIZES = [5, 50] as const
const SAVED_MS = 120_000
const SEEN_MS = 60_000
/** A browser that has just booted is still busy and takes a proxy later. Callers usually get one that has been ready for a while. */
const SETTLED_MS = 2_000

/** Fills the storage of a site: cookies, localStorage, and IndexedDB with values and with files of 32 KB. */
const fill = (megabytes: number) => `(async () => {
  for (let at = 0; at < 50; at++) document.cookie = 'c' + at + '=' + 'x'.repeat(60) + '; max-age=99999'
  document.cookie = 'mark=kept; max-age=99999'
  localStorage.mark = 'kept'
  const random = () => crypto.getRandomValues(new Uint8Array(32768))
  const db = await new Promise((resolve, reject) => {
    const opening = indexedDB.open('db', 1)
    opening.onupgradeneeded = () => opening.result.createObjectStore('store')
    opening.onsuccess = () => resolve(opening.result)
    opening.onerror = reject
  })
  for (let at = 0; at < ${megabytes * 8}; at++)
    await new Promise((resolve, reject) => {
      const writing = db.transaction('store', 'readwrite')
      const store = writing.objectStore('store')
      store.put(new Blob([random()]), 'file' + at)
      for (let part = 0; part < 3; part++) store.put(part === 0 ? random() : 'the same words '.repeat(2185), 'value' + at + '.' + part)
      writing.oncomplete = resolve
      writing.onabort = reject
    })
  db.close()
})()`

/** Waits for an effect. Resolves with the milliseconds from the start until each part of it was visible. */
type Seen = (cdpUrl: string, sinceBegan: () => number) => Promise<number[]>

export async function measureDressed(bench: Bench, service: Service): Promise<Row[]> {
  const { counts, display, pages, signal, rest } = bench
  const { cloud } = service
  await using scope = new AsyncDisposableStack()
  const rows: Row[] = []
  const address = pages.inside('small')

  const ready = async () => {
    await service.warm(1)
    await sleep(SETTLED_MS, signal)
    await rest()
  }
  /** Compares a create with `options` and a bare start with `flags` on a copy of `folder`, each until `seen`. Returns the samples of each part that was seen. */
  const compare = async (
    seen: Seen,
    options: object,
    flags: readonly string[],
    folder?: string,
  ): Promise<{ ours: number[][]; theirs: number[][]; answered: number[] }> => {
    const [ours, theirs, answered]: [number[][], number[][], number[]] = [[], [], []]
    const add = (to: number[][], times: number[]) => times.forEach((ms, at) => (to[at] ??= []).push(ms))
    for (let i = 0; i < counts.dressed; i++) {
      await ready()
      {
        using home = ownFolder()
        if (folder !== undefined) copyProfile(folder, join(home.path, 'profile/Default'))
        await rest()
        const began = performance.now()
        await using chromium = await startChromium(display, [...bareFlags(), ...flags], signal, home)
        add(theirs, await seen(chromium.cdpUrl, () => performance.now() - began))
      }
      await rest()
      const began = performance.now()
      await using session = await service.create(options)
      answered.push(performance.now() - began)
      add(ours, await seen(session.cdpUrl, () => performance.now() - began))
    }
    return { ours, theirs, answered }
  }
  const bare = (what: string, samples: number[]) => ({ what: `bare Chromium, ${what}`, samples })

  const firstPage: Seen = async (url, sinceBegan) => {
    using cdp = await openCdp(url, signal)
    const page = await pageOf(cdp)
    await page.open(address)
    return [sinceBegan()]
  }
  const plain = await compare(firstPage, {}, [])
  rows.push(row('dressed_plain', 'create with nothing, until a page is open', 'ms', plain.ours[0]!, bare('the same', plain.theirs[0]!)))

  for (const size of SIZES) {
    using unpacked = ownFolder()
    const name = `bench-${size}`
    await makeProfile(service, name, size, address, unpacked.path, signal)
    const stored: Seen = async (url, sinceBegan) => {
      using cdp = await openCdp(url, signal)
      await until(
        'the cookie',
        SEEN_MS,
        async () =>
          (await cdp.send<{ cookies: { name: string; value: string }[] }>('Storage.getCookies')).cookies.some(
            ({ name: of, value }) => of === 'mark' && value === 'kept',
          ),
        { everyMs: 1 },
      )
      const cookie = sinceBegan()
      const page = await pageOf(cdp)
      await page.open(address)
      if ((await page.value('localStorage.mark')) !== 'kept') throw new Error('the value in localStorage is missing')
      return [cookie, sinceBegan()]
    }
    const { ours, theirs, answered } = await compare(stored, { profile: { name } }, [], unpacked.path)
    rows.push(
      row(`profile_${size}_answered`, `create with a profile of ${size} MB (POST answered)`, 'ms', answered),
      row(`profile_${size}_cookie`, '  until a CDP client sees its cookie', 'ms', ours[0]!, bare('a copy', theirs[0]!)),
      row(`profile_${size}`, '  and its localStorage in a page', 'ms', ours[1]!, bare('a copy', theirs[1]!)),
    )
  }

  {
    using folder = ownFolder()
    const zip = join(folder.path, 'marker.zip')
    writeFileSync(zip, markingExtension('marker'))
    execFileSync('unzip', ['-q', zip, '-d', join(folder.path, 'marker')])
    own(folder.path)
    await cloud.client.extensions.upload({ file: new File([new Uint8Array(markingExtension('marker'))], 'marker.zip'), name: 'marker' })
    const marked: Seen = async (url, sinceBegan) => {
      using cdp = await openCdp(url, signal)
      const page = await pageOf(cdp)
      // A bare Chromium answers before its extensions have loaded.
      await until(
        'the mark of the extension',
        SEEN_MS,
        async () => {
          await page.open(address)
          return (await page.value('document.documentElement.dataset.marker')) === 'marked'
        },
        { everyMs: 1 },
      )
      return [sinceBegan()]
    }
    const { ours, theirs } = await compare(marked, { extensions: [{ name: 'marker' }] }, [`--load-extension=${join(folder.path, 'marker')}`])
    rows.push(row('dressed_extension', 'create with an extension, until its content script ran', 'ms', ours[0]!, bare('--load-extension', theirs[0]!)))
  }

  const site = scope.use(await serveSite())
  const proxies = [scope.use(await httpProxy({ names: { [SITE]: '127.0.0.1' } })), scope.use(await httpProxy({ names: { [SITE]: '127.0.0.1' } }))] as const
  const [one, two] = [await madeProxy(service, proxies[0]), await madeProxy(service, proxies[1])]
  const through: Seen = async (url, sinceBegan) => {
    using cdp = await openCdp(url, signal)
    await (await pageOf(cdp)).open(`http://${SITE}:${site.port}/`)
    return [sinceBegan()]
  }
  const proxied = await compare(through, { proxy_id: one }, [`--proxy-server=127.0.0.1:${proxies[0].port}`])
  rows.push(row('dressed_proxy', 'create with a proxy, until a page came through it', 'ms', proxied.ours[0]!, bare('--proxy-server', proxied.theirs[0]!)))

  await ready()
  await using session = await service.create({ proxy_id: one })
  const switches: number[] = []
  for (let i = 0; i < counts.dressed; i++) {
    await rest()
    switches.push((await timed(() => cloud.client.browsers.update(session.id, { proxy_id: i % 2 === 0 ? two : one }))).ms)
  }
  rows.push(row('proxy_switch', 'another proxy for a running session (PATCH answered)', 'ms', switches))
  return rows
}

/** The flags of a session's browser, without the agent's pipe, and with a mapping for the site's name. */
const bareFlags = (): string[] => [
  ...chromiumFlags(SCREEN, false, []).filter((flag) => !/^(--remote-debugging|--user-data-dir|about:blank)/.test(flag)),
  `--host-resolver-rules=MAP ${HOST} 127.0.0.1`,
]

/** Makes the unprivileged user the owner of everything below `path`. */
function own(path: string): void {
  const user = serviceUser()
  if (user) execFileSync('chown', ['-R', `${user.uid}:${user.gid}`, path])
}

function copyProfile(from: string, to: string): void {
  mkdirSync(to, { recursive: true })
  execFileSync('cp', ['-a', `${from}/.`, to])
  own(join(to, '..'))
}

/** Makes a profile in a session, and unpacks the saved archive to `folder`. */
export async function makeProfile(
  { cloud, create }: Service,
  name: string,
  megabytes: number,
  address: string,
  folder: string,
  signal: AbortSignal,
): Promise<void> {
  await cloud.client.profiles.create({ name })
  const session = await create({ profile: { name, save_changes: true } })
  {
    using cdp = await openCdp(session.cdpUrl, signal)
    const page = await pageOf(cdp)
    await page.open(address)
    await page.value(fill(megabytes))
    await page.open('about:blank')
  }
  await session.delete()
  const saved = async () => (await cloud.client.profiles.download(name)).status === 200
  await until('the profile to be saved', SAVED_MS, saved, { everyMs: 100 })
  const tar = join(folder, 'profile.tar')
  writeFileSync(tar, Buffer.from(await (await cloud.client.profiles.download(name, { format: 'tar' })).arrayBuffer()))
  execFileSync('tar', ['-xf', tar, '-C', folder])
  rmSync(tar)
}

export const madeProxy = async ({ cloud }: Service, { port }: TestProxy): Promise<string> =>
  (await cloud.client.proxies.create({ type: 'custom', protocol: 'http', config: { host: '127.0.0.1', port } })).id!

function serveSite(): ReturnType<typeof serveSockets> {
  const server: Server = createServer(
    (_request, reply) => void reply.writeHead(200, { 'content-type': 'text/html' }).end('<title>site</title>through the proxy'),
  )
  return serveSockets(server)
}
