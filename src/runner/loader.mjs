// The app's own process, in Node: imports the app, then tells what it registered (build) or calls one action once (run).
// Started beside the runner by the shell of command.ts, or by a build. Reports go to descriptor 3; the task of a run comes on 4.
// An import of these would also load all that their names stand for, which takes longer than the rest of this file.
const { readFileSync, writeSync } = process.getBuiltinModule('node:fs')
const { createRequire, flushCompileCache, registerHooks, setSourceMapsSupport } = process.getBuiltinModule('node:module')
const { Socket } = process.getBuiltinModule('node:net')
const { join } = process.getBuiltinModule('node:path')
const { fileURLToPath, pathToFileURL } = process.getBuiltinModule('node:url')
const { inspect } = process.getBuiltinModule('node:util')

const REPORTS = 3
const TASK = 4
/** As in limits.ts, which is TypeScript: that would have to be stripped here. */
const MAX_OUTPUT_BYTES = 4_718_592

const [mode, app, specFile] = process.argv.slice(2)
const manifest = JSON.parse(readFileSync(join(app, 'manifest.json'), 'utf8'))
const entry = join(app, 'code', manifest.entrypoint)
Object.assign(process.env, JSON.parse(readFileSync(specFile, 'utf8')).env)
process.chdir(join(app, 'code', manifest.folder))
process.argv.splice(1, Infinity, entry)
// Those of packages would cost each run what they are read for.
if (manifest.sourceMaps) setSourceMapsSupport(true, { nodeModules: false, generatedCode: false })

// Output is written before the next line of code runs: nothing of it is lost when the process ends, and its order stays.
// Both first, for opening one of them changes the other, which is the same pipe.
for (const stream of [process.stdout, process.stderr]) stream._handle?.setBlocking?.(true)

function report(news) {
  const bytes = Buffer.from(`${JSON.stringify(news)}\n`)
  for (let at = 0; at < bytes.length;) at += writeSync(REPORTS, bytes, at)
}

/** The last thing this process does. */
function end(news) {
  report(news)
  process.exit(news.type === 'failed' || news.ok === false ? 1 : 0)
}

/** A failure whose message says it all; its stack would be the loader's. */
class Said extends Error {}

let phase = 'loading'
function fail(error) {
  console.error(error instanceof Said ? error.message : error instanceof Error ? inspect(error) : `threw ${inspect(error)}`)
  const reason = messageOf(error)
  end(phase === 'running' ? { type: 'result', ok: false, output: null, reason } : { type: 'failed', reason: `the app could not be loaded: ${reason}` })
}

function messageOf(error) {
  try {
    if (error instanceof Error || typeof error?.message === 'string') return error.message || error.name || String(error)
    return typeof error === 'string' ? error : inspect(error)
  } catch {
    return 'what was thrown cannot be shown'
  }
}

// Rejections that nobody handles come here, too. An app with a handler of its own decides for itself.
process.on('uncaughtException', (error) => {
  if (process.listenerCount('uncaughtException') === 1) fail(error)
})
process.on('beforeExit', () => {
  const what = phase === 'loading' ? 'a top-level await of the app' : 'the action'
  fail(new Said(`${what} waits for something that can never happen: there is nothing left that could wake it`))
})

if (mode === 'build') await build()
else await run()

async function build() {
  const seen = new Set()
  registerHooks({
    resolve(specifier, context, next) {
      const found = next(specifier, context)
      if (specifier === '@onkernel/sdk' || /@onkernel\/sdk\/.*\/app-framework\.m?js$/.test(found.url)) seen.add(found.url)
      return found
    },
  })
  await import(pathToFileURL(entry).href)
  const found = new Map()
  const apps = new Map()
  // Code of the two kinds of modules has a registry each, and each copy of the SDK has its own.
  for (const path of [...seen].map(fileURLToPath)) {
    const at = { path, cjs: !path.endsWith('.mjs') }
    const registry = await registryOf(at)
    if (found.has(registry) || !registry?.getApps().length) continue
    found.set(registry, at)
    for (const one of registry.getApps()) apps.set(one.name, { name: one.name, actions: one.getActions().map(({ name }) => ({ name })) })
  }
  flushCompileCache()
  end({ type: 'loaded', apps: [...apps.values()], registries: [...found.values()] })
}

async function run() {
  await import(pathToFileURL(entry).href)
  const apps = new Map()
  for (const at of manifest.registries) for (const one of (await registryOf(at)).getApps()) apps.set(one.name, one)
  report({ type: 'loaded' })
  const task = JSON.parse(await taskText())
  phase = 'running'
  const action = apps.get(task.app)?.getAction(task.action)
  if (!action) throw new Said(`the app "${task.app}" has no action "${task.action}" any more; it is registered in some runs of its code only`)
  const payload = task.payload === null ? undefined : JSON.parse(task.payload)
  end(resultOf(await action.handler({ invocation_id: task.invocation }, payload)))
}

/** The module is loaded already, by the app's code; this is the same one. */
async function registryOf({ path, cjs }) {
  const module = cjs ? createRequire(entry)(path) : await import(pathToFileURL(path).href)
  return module.appRegistry
}

async function taskText() {
  const chunks = []
  // Not through fs: a read that still waits there would keep the process from ending.
  for await (const chunk of new Socket({ fd: TASK, readable: true, writable: false })) chunks.push(chunk)
  if (chunks.length === 0) process.exit(1)
  return Buffer.concat(chunks).toString()
}

function resultOf(value) {
  if (value === undefined || value === null) return { type: 'result', ok: true, output: null, reason: null }
  let output
  try {
    output = JSON.stringify(value)
  } catch (error) {
    throw new Said(`what the action returned cannot be written as JSON: ${messageOf(error).split('\n')[0]}`, { cause: error })
  }
  if (output === undefined) throw new Said(`what the action returned cannot be written as JSON: it is a ${typeof value}`)
  const bytes = Buffer.byteLength(output)
  if (bytes > MAX_OUTPUT_BYTES) throw new Said(`the action returned ${bytes} bytes of JSON; ${MAX_OUTPUT_BYTES} are allowed`)
  return { type: 'result', ok: true, output, reason: null }
}
