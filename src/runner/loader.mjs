// The app's own process, in Node: imports the app, then reports what it registered (build) or calls one action once (run). Started in parallel with
// the runner by the shell of command.ts, or by a build. Reports go to descriptor 3; the task of a run comes on descriptor 4.
// getBuiltinModule instead of import: an import would also load the modules of all its exports, which takes longer than the rest of this file.
const { closeSync, openSync, readFileSync, writeSync } = process.getBuiltinModule('node:fs')
const { createRequire, flushCompileCache, registerHooks, setSourceMapsSupport } = process.getBuiltinModule('node:module')
const { Socket } = process.getBuiltinModule('node:net')
const { join } = process.getBuiltinModule('node:path')
const { fileURLToPath, pathToFileURL } = process.getBuiltinModule('node:url')
const { inspect } = process.getBuiltinModule('node:util')

const REPORTS = 3
const TASK = 4
/** The same as in limits.ts. Not imported, because Node would have to strip its types. */
const MAX_OUTPUT_BYTES = 4_718_592

const [mode, app, specFile] = process.argv.slice(2)
const manifest = JSON.parse(readFileSync(join(app, 'manifest.json'), 'utf8'))
const entry = join(app, 'code', manifest.entrypoint)
Object.assign(process.env, JSON.parse(readFileSync(specFile, 'utf8')).env)
process.chdir(join(app, 'code', manifest.folder))
process.argv.splice(1, Infinity, entry)
// Not for packages: reading their source maps would slow down every run.
if (manifest.sourceMaps) setSourceMapsSupport(true, { nodeModules: false, generatedCode: false })

// Write output synchronously, so that nothing is lost when the process ends, and the order stays. Open both streams first: they are the same pipe,
// and opening one changes the mode of the other.
for (const stream of [process.stdout, process.stderr]) stream._handle?.setBlocking?.(true)

function report(news) {
  const bytes = Buffer.from(`${JSON.stringify(news)}\n`)
  for (let at = 0; at < bytes.length;) at += writeSync(REPORTS, bytes, at)
}

/** Reports and ends the process. */
function end(news) {
  report(news)
  if (mode === 'run') process.on('exit', leave)
  process.exit(news.type === 'failed' || news.ok === false ? 1 : 0)
}

/**
 * After the app's own exit handlers: gives up the outputs and says so. The end of the process takes some milliseconds more, for which the runner need
 * not wait then.
 */
function leave() {
  try {
    for (const output of [1, 2]) {
      closeSync(output)
      openSync('/dev/null', 'w') // takes its number
    }
  } catch {
    return // the app has closed them itself
  }
  report({ type: 'done' })
}

/** An error whose message is enough; its stack would only show the loader. */
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

// Unhandled rejections come here too. An app may install its own handler.
process.on('uncaughtException', (error) => {
  if (process.listenerCount('uncaughtException') === 1) fail(error)
})
process.on('beforeExit', () => {
  const what = phase === 'loading' ? 'a top-level await of the app' : 'the action'
  fail(new Said(`${what} waits for something that can never happen: no timer, request or other work is pending`))
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
  // ES modules and CommonJS have one registry each, and so has each copy of the SDK.
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

/** The app's code has loaded the module already; this returns the same instance. */
async function registryOf({ path, cjs }) {
  const module = cjs ? createRequire(entry)(path) : await import(pathToFileURL(path).href)
  return module.appRegistry
}

async function taskText() {
  const chunks = []
  // Not through fs: a pending read there would keep the process from ending.
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
