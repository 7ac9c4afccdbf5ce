// Builds: deployed code becomes an app that runs, or fails with a reason that its author can act on. No network.
import { execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeZip } from '../../test/support/zips.ts'
import { logsOf, openLab, type Built, type Lab } from './runner.suite.ts'

let lab: Lab
beforeAll(() => {
  lab = openLab()
})
afterAll(() => lab[Symbol.asyncDispose]())

const outputOf = async ({ app }: Built, action: string, name = 'app'): Promise<unknown> => {
  const { last } = await lab.run(app, action, { n: 1 }, { app: name })
  expect(last).toMatchObject({ type: 'result', ok: true })
  return JSON.parse((last as { output: string }).output) as unknown
}
const loaded = (...apps: [string, string[]][]) => ({
  type: 'loaded',
  apps: apps.map(([name, actions]) => ({ name, actions: actions.map((action) => ({ name: action })) })),
})
const failed = (reason: RegExp) => ({ type: 'failed', reason: expect.stringMatching(reason) })
const manifestOf = ({ app }: Built) => JSON.parse(readFileSync(join(app, 'manifest.json'), 'utf8')) as { registries: { cjs: boolean }[]; entrypoint: string }

/** A minimal Python package index: no cache headers, no validators. */
async function packageIndex(): Promise<
  AsyncDisposable & { env: Record<string, string>; downloads: string[]; add(name: string, files: Record<string, string>): void }
> {
  const wheels = new Map<string, Buffer>()
  const downloads: string[] = []
  const nameOf = (file: string) => file.split('-')[0]!
  const server = createServer((request, response) => {
    const file = request.url!.split('/').at(-1)!
    const wheel = wheels.get(file)
    if (wheel) {
      downloads.push(file)
      return void response.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': wheel.length }).end(wheel)
    }
    const links = [...wheels].filter(([name]) => request.url === `/simple/${nameOf(name)}/`)
    const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
    const page = links.map(([name, bytes]) => `<a href="/files/${name}#sha256=${sha256(bytes)}">${name}</a>`).join('')
    response.writeHead(links.length > 0 ? 200 : 404, { 'content-type': 'text/html' }).end(`<!doctype html><html><body>${page}</body></html>`)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    // pip caches nothing from plain HTTP, except from trusted hosts.
    env: { PIP_INDEX_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}/simple/`, PIP_TRUSTED_HOST: '127.0.0.1' },
    downloads,
    add(name, files) {
      const info = {
        [`${name}-1.dist-info/METADATA`]: `Metadata-Version: 2.1\nName: ${name}\nVersion: 1\n`,
        [`${name}-1.dist-info/WHEEL`]: 'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
      }
      const record = [...Object.keys(files), ...Object.keys(info)].map((path) => `${path},,\n`).join('') + `${name}-1.dist-info/RECORD,,\n`
      const all = Object.entries({ ...files, ...info, [`${name}-1.dist-info/RECORD`]: record })
      wheels.set(`${name}-1-py3-none-any.whl`, makeZip(all.map(([path, content]) => ({ name: path, content, mode: 0o100755 }))))
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

const TYPESCRIPT = {
  'tsconfig.json': '{"compilerOptions":{"module":"nodenext","paths":{"~lib/*":["./src/lib/*"]}}}',
  'src/app.ts': `
    import { Kernel, type KernelContext } from '@onkernel/sdk'
    import { Colour, here } from '~lib/colour'
    import { view } from './view'
    const app = new Kernel().app('app')
    app.action('all', async (ctx: KernelContext, payload: { n: number }) => [Colour.Green, here(), __dirname.endsWith('/src'), view(), payload.n])
    app.action('throws', async (ctx: KernelContext) => { throw new Error('in TypeScript') })`,
  'src/view.tsx': `const h = (name: string) => '<' + name + '>'
    /** @jsx h */ export const view = () => <b />`,
  'src/lib/colour.ts': `export enum Colour { Red, Green }
    export const here = () => import.meta.url.split('/').slice(-3).join('/')`,
}

describe('a build of TypeScript', () => {
  test.each([
    ['module', 'mjs', false],
    ['commonjs', 'cjs', true],
  ])('supports enums, aliases, JSX and several files, as %s', async (type, suffix, cjs) => {
    const built = await lab.build({ ...TYPESCRIPT, 'src/package.json': JSON.stringify({ type }) }, 'src/app.ts')
    expect(built.last).toMatchObject(loaded(['app', ['all', 'throws']]))
    expect(manifestOf(built)).toMatchObject({ entrypoint: `src/.cob-app.${suffix}`, registries: [{ cjs }] })
    expect(await outputOf(built, 'all')).toEqual([1, 'src/lib/colour.ts', true, '<b>', 1])
    expect((await lab.run(built.app, 'throws')).logs.join('\n')).toMatch(/src\/app\.ts:7:\d+/)
  })

  test('accepts top-level await, also if nothing declares that it is a module', async () => {
    const built = await lab.build(
      { 'app.ts': `import { Kernel } from '@onkernel/sdk'\nawait 1\nnew Kernel().app('app').action('one', async (ctx) => 1 as number)` },
      'app.ts',
    )
    expect(built.last).toMatchObject(loaded(['app', ['one']]))
    expect(await outputOf(built, 'one')).toBe(1)
  })

  test('keeps CommonJS files, a #! line, and a "require" that the code declares', async () => {
    const files = (cjs: boolean) => ({
      'package.json': '{"type":"module","imports":{"#lib/*":"./lib/*.ts"}}',
      'app.ts': `#!/usr/bin/env node
        import { createRequire } from 'node:module'
        import { Kernel } from '@onkernel/sdk'
        import { sub } from '#lib/sub'
        ${cjs ? "import old from './old.cjs'" : 'const old = { sep: "/" }'}
        const require = createRequire(import.meta.url)
        new Kernel().app('app').action('one', async (ctx) => [sub, old.sep, typeof require('node:fs').statSync])`,
      'old.cjs': `exports.sep = require('node:path').sep`,
      'lib/sub.ts': `export const sub: string = 'sub'`,
    })
    for (const cjs of [true, false]) expect(await outputOf(await lab.build(files(cjs), 'app.ts'), 'one')).toEqual(['sub', '/', 'function'])
  })

  test('that cannot be parsed fails with file and line', async () => {
    const { logs, last } = await lab.build({ 'app.ts': 'const a: = 1' }, 'app.ts')
    expect(last).toMatchObject(failed(/^app\.ts could not be bundled: app\.ts:1:9: Unexpected "="/))
    expect(logs.join('\n')).toContain('const a: = 1')
  })
})

describe('a build of JavaScript', () => {
  test('finds several apps in one file, and apps in both kinds of modules', async () => {
    const built = await lab.build(
      {
        'app.mjs': `import { Kernel } from '@onkernel/sdk'
          import { KernelApp } from '@onkernel/sdk/core/app-framework'
          import './other.cjs'
          new Kernel().app('one').action('a', async (ctx) => 'one')
          new KernelApp('two').action('b', async (ctx) => 'two')`,
        'other.cjs': `new (require('@onkernel/sdk/core/app-framework').KernelApp)('three').action('c', async (ctx) => 'three')`,
      },
      'app.mjs',
    )
    expect(built.last.type).toBe('loaded')
    expect((built.last as { apps: { name: string }[] }).apps.map(({ name }) => name).toSorted()).toEqual(['one', 'three', 'two'])
    expect(manifestOf(built).registries).toHaveLength(2)
    expect([await outputOf(built, 'a', 'one'), await outputOf(built, 'c', 'three')]).toEqual(['one', 'three'])
  })

  test('keeps compiled code for the runs, and no files of its own', async () => {
    const { app } = await lab.build(
      { 'index.js': `const { Kernel } = require('@onkernel/sdk'); new Kernel().app('app').action('a', async (ctx) => 1)` },
      'index.js',
    )
    expect(readdirSync(app).toSorted()).toEqual(['code', 'compile-cache', 'manifest.json'])
    expect(readdirSync(join(app, 'compile-cache'), { recursive: true }).length).toBeGreaterThan(10)
  })

  test('gives the code its variables, and hides its own', async () => {
    const code = `import { Kernel } from '@onkernel/sdk'
      if (process.env.SECRET !== 'hunter2') throw new Error('no secret')
      new Kernel().app('app').action('a', async (ctx) => 1)`
    const { logs, last } = await lab.build({ 'app.mjs': code }, 'app.mjs', { SECRET: 'hunter2' })
    expect(last.type).toBe('loaded')
    expect(logs.join('\n')).not.toMatch(/hunter2|sk_test/)
  })
})

describe('a build of Python', () => {
  test('finds the apps, and creates an environment for the runs', async () => {
    const read = (name: string) => readFileSync(join(import.meta.dirname, '../../test/data/apps/python', name), 'utf8')
    const files = { 'src/main.py': read('main.py'), 'src/kernel.py': read('kernel.py'), 'pyproject.toml': '[project]\nname = "x"\nversion = "1"\n' }
    const built = await lab.build(files, 'src/main.py')
    expect(built.last).toMatchObject(loaded(['py', ['sync', 'async', 'ctx-only', 'boom', 'exit', 'set', 'nan']]))
    expect(readdirSync(join(built.app, 'code/src/__pycache__')).length).toBe(2)
    expect(await outputOf(built, 'async', 'py')).toEqual([{ n: 1 }])
  })

  test('that cannot be imported fails with the place of the error', async () => {
    const { logs, last } = await lab.build({ 'main.py': 'import nowhere_to_be_found\n' }, 'main.py')
    expect(last).toMatchObject(failed(/could not be loaded: No module named 'nowhere_to_be_found'/))
    expect(logs.join('\n')).toMatch(/File ".*main\.py", line 1/)
  })

  test('whose lockfile lacks a dependency installs it without the lockfile, with a warning', async () => {
    await using index = await packageIndex()
    // A fake uv: prints its arguments and makes the environment.
    index.add('uv', { 'uv-1.data/scripts/uv': '#!/bin/sh\necho "asked: $*"\nexec python3 -m venv --without-pip "$UV_PROJECT_ENVIRONMENT"\n' })
    const project = `[project]\nname = "x"\nversion = "1"\ndependencies = ["kernel", "Left_Pad>=1"]\n`
    const lock = (...names: string[]) =>
      `version = 1\n[[package]]\nname = "x"\nversion = "1"\n[package.metadata]\nrequires-dist = [${names.map((name) => `{ name = "${name}" }`).join(', ')}]\n`
    const logsWith = async (...names: string[]) =>
      (await lab.build({ 'main.py': '', 'pyproject.toml': project, 'uv.lock': lock(...names) }, 'main.py', index.env)).logs.join('\n')
    const matched = await logsWith('kernel', 'left-pad')
    expect(matched).toMatch(/asked: sync --frozen /)
    expect(matched).not.toContain('WARNING')
    const mismatched = await logsWith('kernel')
    expect(mismatched).toContain('cob: WARNING: uv.lock does not match pyproject.toml, it lacks left-pad; installing by pyproject.toml')
    expect(mismatched).toMatch(/asked: sync --no-install-project/)
  }, 120_000)

  const requiring = (name: string) => ({
    'requirements.txt': `${name}\n`,
    'main.py': `import kernel, ${name}\napp = kernel.App(${name}.NAME)\n@app.action("a")\ndef a(ctx): return 1\n`,
    'kernel.py': readFileSync(join(import.meta.dirname, '../../test/data/apps/python/kernel.py'), 'utf8'),
  })

  test('uses packages from earlier downloads, also if the index forbids caching, but never another file than the index names', async () => {
    await using index = await packageIndex()
    index.add('tiny', { 'tiny.py': 'NAME = "first"' })
    const first = await lab.build(requiring('tiny'), 'main.py', index.env)
    expect(first.last).toMatchObject(loaded(['first', ['a']]))
    expect(index.downloads).toHaveLength(1)
    index.add('tiny', { 'tiny.py': 'NAME = "second"' })
    const { last, logs } = await lab.build(requiring('tiny'), 'main.py', index.env)
    expect(logs.join('\n')).toMatch(/Using cached .*tiny-1-py3-none-any\.whl.*cob: a cached download does not match the index any longer/s)
    expect(last).toMatchObject(loaded(['second', ['a']]))
    expect(index.downloads).toHaveLength(2)
  }, 120_000)
})

describe('a build whose lockfile does not match package.json', () => {
  test('installs by package.json, with a warning', async () => {
    const files = {
      'app.mjs': `import { Kernel } from '@onkernel/sdk'\nimport name from 'near'\nnew Kernel().app(name).action('a', async (ctx) => 1)`,
      'near/package.json': '{"name":"near","version":"1.0.0","main":"index.js"}',
      'near/index.js': 'module.exports = "near"',
      'package.json': '{"name":"x","version":"1.0.0","dependencies":{"near":"file:./near"}}',
      'package-lock.json': '{"name":"x","version":"1.0.0","lockfileVersion":3,"packages":{"":{"name":"x","version":"1.0.0"}}}',
    }
    const { last, logs } = await lab.build(files, 'app.mjs')
    expect(last).toMatchObject(loaded(['near', ['a']]))
    expect(logs.join('\n')).toMatch(/cob: npm ci\n.*cob: WARNING: package-lock\.json does not match package\.json; .*\n.*cob: npm install\n/s)
  })
})

describe('a build fails with a reason', () => {
  test.each<[string, Record<string, string>, string, RegExp]>([
    ['no entrypoint', { 'a.js': '' }, 'app.js', /the entrypoint "app\.js" does not exist/],
    ['an entrypoint outside', { 'a.js': '' }, '../../a.js', /leads out of the code/],
    ['a folder as entrypoint', { 'a.js/b': '' }, 'a.js', /is not a file/],
    ['another language', { 'a.go': '' }, 'a.go', /is in no language that can be run/],
    ['an error on import', { 'a.mjs': 'throw new Error("broken on import")' }, 'a.mjs', /could not be loaded: broken on import/],
    ['a missing package', { 'a.mjs': 'import "left-pad"' }, 'a.mjs', /Cannot find package 'left-pad'/],
    ['an end on import', { 'a.mjs': 'process.exit(5)' }, 'a.mjs', /ended its process with exit code 5 before it was loaded/],
    [
      'an import that waits for nothing',
      { 'a.mjs': 'await new Promise(() => {})' },
      'a.mjs',
      /a top-level await of the app waits for something that can never happen/,
    ],
    ['no app', { 'a.mjs': 'import "@onkernel/sdk"' }, 'a.mjs', /no app was found in a\.mjs: write const app = new Kernel/],
    ['no action', { 'a.mjs': 'import { KernelApp } from "@onkernel/sdk/core/app-framework"; new KernelApp("x")' }, 'a.mjs', /the app "x" has no actions/],
    [
      'an odd action',
      { 'a.mjs': 'import { KernelApp } from "@onkernel/sdk/core/app-framework"; new KernelApp("x").action("y", async () => 1)' },
      'a.mjs',
      /must accept at least the context/,
    ],
    ['a package.json that is none', { 'a.ts': '', 'package.json': '{' }, 'a.ts', /"npm install" failed.*JSON/is],
    [
      'a lockfile that is none',
      { 'a.mjs': '', 'package.json': '{"name":"x"}', 'package-lock.json': '{' },
      'a.mjs',
      /"npm ci" failed with exit code 1: .*can only install with an existing package-lock\.json/s,
    ],
  ])('for %s', async (_what, files, entrypoint, reason) => {
    const { logs, last } = await lab.build(files, entrypoint)
    expect(last).toMatchObject(failed(reason))
    expect(logs[0]).toBe('cob: unpacking the archive')
  })

  test('for a file that is not a zip archive', async () => {
    expect((await lab.build(Buffer.from('no zip at all'), 'a.js')).last).toMatchObject(failed(/the archive is not a zip that can be read/))
  })
})

describe('a build of a repository', () => {
  const token = 'ghp_very_secret'
  const seen: string[] = []
  let url: string
  let commit: string
  let close: () => void
  beforeAll(async () => {
    const root = join(lab.dir, 'git')
    const work = join(root, 'work')
    mkdirSync(join(work, 'apps/one'), { recursive: true })
    const git = (...args: string[]) =>
      execFileSync('git', ['-c', 'user.name=x', '-c', 'user.email=x@x', '-c', 'init.defaultBranch=main', ...args], {
        cwd: work,
        encoding: 'utf8',
        stdio: 'pipe',
      }).trim()
    const write = (version: number) =>
      writeFileSync(
        join(work, 'apps/one/app.mjs'),
        `import { Kernel } from '@onkernel/sdk'; new Kernel().app('app').action('version', async (ctx) => ${version})`,
      )
    git('init', '--quiet')
    write(1)
    git('add', '.')
    git('commit', '--quiet', '-m', '1')
    commit = git('rev-parse', 'HEAD')
    write(2)
    git('commit', '--quiet', '-a', '-m', '2')
    git('clone', '--quiet', '--bare', '.', join(root, 'repo.git'))
    const server = createServer((request, response) => {
      seen.push(request.headers.authorization ?? '')
      const login = `Basic ${Buffer.from(`x-access-token:${token}`).toString('base64')}`
      if (request.headers.authorization !== login) return void response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end()
      backend(root, request, response)
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/repo.git`
    close = () => {
      server.close()
      server.closeAllConnections()
    }
  })
  afterAll(() => close())

  test.each([
    ['a branch', () => 'main', 2],
    ['a commit', () => commit, 1],
  ])('downloads %s and a folder of it', async (_what, ref, version) => {
    const built = await lab.fetch({ type: 'git', url, ref: ref(), path: 'apps/one', entrypoint: 'app.mjs', token })
    expect(built.last).toMatchObject(loaded(['app', ['version']]))
    expect(readdirSync(join(built.app, 'code'))).toEqual(['apps'])
    expect(await outputOf(built, 'version')).toBe(version)
    expect(built.logs.join('\n')).not.toContain(token)
  })

  test('fails without credentials, or for a branch that does not exist', async () => {
    const source = { type: 'git', url, ref: 'main', entrypoint: 'app.mjs' } as const
    expect((await lab.fetch(source)).last).toMatchObject(failed(/"git fetch .*" failed with exit code 128: .*(could not read Username|Authentication failed)/s))
    const { logs, last } = await lab.fetch({ ...source, ref: 'nowhere', token })
    expect(last).toMatchObject(failed(/couldn't find remote ref nowhere/))
    expect(logs.join('\n')).not.toContain(token)
    expect((await lab.fetch({ ...source, path: '../x', token })).last).toMatchObject(failed(/leads out of the code/))
    expect((await lab.fetch({ ...source, url: 'file:///etc' })).last).toMatchObject(failed(/must begin with https/))
  })
})

/** Git's own server, run as a CGI program. */
function backend(root: string, request: IncomingMessage, response: ServerResponse): void {
  const [path, query = ''] = (request.url ?? '').split('?')
  const child = spawn('git', ['-c', 'safe.directory=*', 'http-backend'], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: {
      PATH: process.env.PATH,
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: '1',
      REQUEST_METHOD: request.method,
      PATH_INFO: path,
      QUERY_STRING: query,
      CONTENT_TYPE: request.headers['content-type'],
      HTTP_CONTENT_ENCODING: request.headers['content-encoding'],
      GIT_PROTOCOL: request.headers['git-protocol'] as string | undefined,
    },
  })
  request.pipe(child.stdin)
  const chunks: Buffer[] = []
  child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk))
  child.stdout.on('end', () => {
    const answer = Buffer.concat(chunks)
    const end = answer.indexOf('\r\n\r\n')
    const headers = answer
      .subarray(0, end)
      .toString()
      .split('\r\n')
      .map((line) => line.split(': ') as [string, string])
    const status = Number(headers.find(([name]) => name === 'Status')?.[1].split(' ')[0] ?? 200)
    response.writeHead(status, Object.fromEntries(headers.filter(([name]) => name !== 'Status'))).end(answer.subarray(end + 4))
  })
}

test('a build accepts one archive only', async () => {
  const app = join(lab.dir, 'once')
  mkdirSync(app)
  await using runner = await lab.start({ kind: 'build', source: { type: 'archive', entrypoint: 'a.js' } }, app)
  expect(await runner.archive(Buffer.from('x'))).toBe(204)
  expect(await runner.archive(Buffer.from('x'))).toBe(400)
  expect(logsOf(await runner.events())).toEqual(['cob: unpacking the archive'])
  expect(await runner.ready()).toMatchObject({ ok: false })
})
