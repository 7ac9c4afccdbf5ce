// A build: turns a zip or a repository into a folder from which runs start. Lists the steps in order; each is in a file of its own.
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { BuildFailed, Tools } from './tools.ts'
import type { RunnerSpec } from './contract.ts'
import type { Events } from './events.ts'
import { appFolder, findEntrypoint } from './entrypoint.ts'
import { CODE, COMPILE_CACHE, MANIFEST, MAX_REASON, SCRATCH, type Manifest, type RunnerPaths } from './limits.ts'
import { CannotPack, openPacked, packFolder } from './pack.ts'
import { probe } from './probe.ts'
import { receiveArchive } from './receive.ts'
import { Refused, type Work } from './serve.ts'

/** Timeout of a whole build. */
const BUILD_MS = 15 * 60_000

export function hostBuild(spec: RunnerSpec, paths: RunnerPaths, events: Events): Work {
  const ready = Promise.withResolvers<{ ok: true } | { ok: false; reason: string }>()
  const source = spec.source
  if (!source) throw new Error('a build has a source')
  const scratch = join(paths.app, SCRATCH)
  const archive = join(scratch, 'archive.zip')
  let begun = false
  let isPacked = false

  const build = async () => {
    const signal = AbortSignal.timeout(BUILD_MS)
    const tools = new Tools(spec, paths, scratch, events, signal)
    try {
      const apps = await make(spec, paths, tools, archive)
      await rm(scratch, { recursive: true, force: true })
      await packFolder(paths.app, paths.packed, signal)
      isPacked = true
      events.end({ type: 'loaded', apps })
      ready.resolve({ ok: true })
    } catch (error) {
      const why = signal.aborted ? `the build took longer than ${BUILD_MS / 60_000} minutes` : reasonOf(error, tools)
      const reason = tools.mask(why).slice(0, MAX_REASON)
      await rm(scratch, { recursive: true, force: true }).catch(() => {})
      events.end({ type: 'failed', reason })
      ready.resolve({ ok: false, reason })
    }
  }

  if (source.type === 'git') {
    begun = true
    void mkdir(scratch, { recursive: true }).then(build)
  }
  return {
    ready: ready.promise,
    async packed() {
      if (!isPacked) throw new Refused('conflict', 'this build has no packed code (yet)')
      return openPacked(paths.packed)
    },
    async receive(body) {
      if (begun) throw new Refused('bad_request', source.type === 'git' ? 'this build fetches a repository' : 'this build has its archive')
      begun = true
      await mkdir(scratch, { recursive: true })
      await receiveArchive(body, archive)
      void build()
    },
  }
}

async function make(spec: RunnerSpec, paths: RunnerPaths, tools: Tools, archive: string) {
  const source = spec.source!
  const code = join(paths.app, CODE)
  await rm(code, { recursive: true, force: true })
  if (source.type === 'archive') {
    const { unpackArchive } = await import('./unzip.ts')
    tools.say('unpacking the archive')
    const { files, bytes } = await unpackArchive(archive, code, tools.signal)
    tools.say(`unpacked ${files} files, ${bytes} bytes`)
    await rm(archive)
  } else await (await import('./git.ts')).fetchRepository(source, code, tools)

  const folder = await appFolder(code, source.type === 'git' ? source.path : undefined)
  const { language, file } = await findEntrypoint(code, folder, source.entrypoint)
  const manifest: Manifest = { language, entrypoint: file, folder }
  if (language === 'python') {
    const { compilePython, installPython } = await import('./python-packages.ts')
    await installPython(join(code, folder), paths, tools)
    await compilePython(paths, tools)
  } else {
    await (await import('./node-packages.ts')).installNode(code, folder, tools)
    Object.assign(manifest, await (await import('./bundle.ts')).bundleTypeScript(code, file, tools))
  }
  const write = () => writeFile(join(paths.app, MANIFEST), `${JSON.stringify(manifest)}\n`)
  await write()
  await mkdir(join(paths.app, COMPILE_CACHE), { recursive: true })
  const { apps, registries } = await probe(spec, paths, manifest, tools)
  if (registries) manifest.registries = registries
  await write()
  tools.say(`found ${apps.map(({ name, actions }) => `${name} (${actions.map((action) => action.name).join(', ')})`).join('; ')}`)
  return apps
}

/** An error that is not a BuildFailed is a bug of ours or a disk problem; log its stack for the operator. */
function reasonOf(error: unknown, tools: Tools): string {
  if (error instanceof BuildFailed) return error.message
  if (error instanceof CannotPack) return `the built code could not be packed: ${error.message}`
  const { stack, message } = error as Error
  for (const line of (stack ?? message).split('\n')) tools.say(line)
  return `the build failed: ${message}`
}
