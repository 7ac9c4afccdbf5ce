// Which room of src/ may import which, and why. AGENTS.md has the layout.
import { execFile } from 'node:child_process'
import { readFileSync, readdirSync } from 'node:fs'
import { dirname, join, matchesGlob, relative } from 'node:path'
import { describe, expect, test } from 'vitest'
import { PACKAGE_DIR } from '../src/base/paths.ts'

/** Functions longer than 120 lines, including the functions inside them (long-functions.json). The list may only get shorter. */
const LONG = [
  'src/agent/chromium/cdp.ts makeCdp',
  'src/agent/computer/pointer.ts pointerPlans',
  'src/agent/display/x/keyboard.ts openKeyboard',
  'src/agent/display/x/windows.ts manageWindows',
  'src/agent/playwright/runs.ts serveRuns',
  'src/control/sessions/browsers/browsers.ts makeBrowsers',
  'src/instances/docker/docker.ts dockerEngine',
  'src/store/objects-s3.ts s3Objects',
]

interface Rule {
  /** The files to which this rule applies. Only the first rule that matches a file counts. */
  files: string
  /** The files that they may import. */
  may: string[]
  /** The packages that they may import; undefined allows every dependency. */
  packages?: string[]
  why: string
}

const RULES: Rule[] = [
  {
    files: 'runner/contract.ts',
    may: ['runner/limits.ts', 'http/route.ts'],
    packages: ['zod'],
    why: 'its numbers and paths lie beside it, in a file without zod: a runner has no time to load that',
  },
  {
    files: '**/contract.ts',
    may: ['**/contract.ts', 'http/route.ts', 'base/ids.ts', 'base/hosts.ts'],
    packages: ['zod'],
    why: 'a contract is data: server, clients, commands and tests of every room read it, so it may pull nothing in',
  },
  { files: 'base/**', may: ['base/**'], why: 'words that every room may use; a word that needs a room belongs into that room' },
  { files: 'http/**', may: ['http/**', 'base/**'], why: 'the wire knows no browsers, so that control plane and agent can share it' },
  {
    files: 'egress/**',
    may: ['egress/**', 'base/**', 'http/endpoint.ts'],
    why: 'the way of a session to the internet: it knows proxies, connections and where an agent answers, not who owns them',
  },
  { files: 'store/**', may: ['store/**', 'base/**'], why: 'the store keeps rows; it knows neither who asks nor what they mean' },
  { files: 'agent/{main,lean,display/{x,cdp}/*}.ts', may: ['agent/**', 'base/**', 'http/**'], why: 'the start of the agent knows which display there is' },
  {
    files: 'agent/**',
    may: ['agent/*.ts', 'agent/!(display)/**', 'agent/display/display.ts', 'base/**', 'http/**'],
    why: 'the agent runs inside an instance, where neither database nor driver is; what it imports must be safe to give to a guest. Nobody asks which display there is',
  },
  { files: 'runner/*.mjs', may: [], packages: [], why: 'it starts in milliseconds in the process of an app, whose modules must not meet ours' },
  {
    files: 'runner/**',
    may: ['runner/**', 'base/**'],
    why: 'a runner lives beside code of strangers and must start in milliseconds: it knows no server of ours, no agent, no store',
  },
  {
    files: 'instances/fake/**',
    may: ['instances/fake/**', 'instances/driver.ts', 'instances/agent-keys.ts', 'agent/**', 'runner/{contract,events,serve}.ts', 'base/**', 'http/**'],
    why: 'the fake runs the real routes of the agent and of a runner over what it pretends, in this process',
  },
  {
    files: 'instances/{docker,kubernetes}/**',
    may: ['instances/docker/*.ts', 'instances/kubernetes/*.ts', 'instances/containers/**', 'instances/driver.ts', 'base/**'],
    why: 'an engine starts containers: it knows neither agents nor what they are told',
  },
  {
    files: 'instances/containers/**',
    may: [
      'instances/containers/**',
      'instances/local/system-calls.ts',
      'instances/*.ts',
      'base/**',
      'http/**',
      'agent/spec.ts',
      'runner/contract.ts',
      'runner/command.ts',
    ],
    packages: [],
    why: 'the driver over an engine knows what an agent is told, and no engine; its filter of system calls is the one of the local driver',
  },
  {
    files: 'instances/**',
    may: [
      'instances/*.ts',
      'instances/local/**',
      'base/**',
      'http/**',
      'agent/**/contract.ts',
      'agent/capabilities.ts',
      'agent/spec.ts',
      'agent/bundle-names.ts',
      'runner/contract.ts',
      'runner/command.ts',
    ],
    why: 'a driver starts agents and talks to them: it needs to know what an agent is told and says, never how it works',
  },
  {
    files: 'control/service/engines.ts',
    may: ['base/**', 'http/**', 'instances/**'],
    why: 'it chooses the driver; it is the only file of the control plane that knows there are several',
  },
  {
    files: 'control/main.ts',
    may: ['control/**', 'base/**', 'http/**', 'store/**', 'egress/**', 'instances/driver.ts', 'instances/agent-keys.ts'],
    why: 'the wiring knows every part',
  },
  {
    files: 'control/**',
    may: ['control/**', 'base/**', 'http/**', 'store/**', 'egress/*.ts', 'instances/driver.ts', '**/contract.ts'],
    why: 'the rules see instances through the seam, and the agent through its contracts, which they offer to the public',
  },
  {
    files: 'cli/**',
    may: [
      'cli/**',
      'base/**',
      'http/**',
      'control/main.ts',
      'control/modules.ts',
      'control/service/{doctor,openapi}.ts',
      'control/service/backup/{backup,restore}.ts',
      'control/access/key-commands.ts',
      'control/service/rotation.ts',
      'control/service/service-keys.ts',
      'control/service/service-status.ts',
      'control/service/with-database.ts',
      'instances/local/orphans.ts',
      'instances/{local,docker,kubernetes}/doctor.ts',
      'instances/kubernetes/{api,node-ready,remove}.ts',
      'instances/containers/seccomp.ts',
      '**/contract.ts',
    ],
    why: 'commands start the service, print its document, ask it over HTTP, look at the machine as the drivers and the stores will, keep nodes of a cluster ready and clean it up, change the keys of what is stored, move it, and back it up',
  },
]

/** For each wing of control/, the wings whose files it may import besides its own. Every wing may read contracts, because they are data. */
const WINGS: Record<string, string[]> = {
  service: [],
  access: ['service'],
  sessions: ['service', 'access'],
  apps: ['service', 'access', 'sessions'],
  logins: ['service', 'access', 'sessions'],
}

/** These files connect groups: they may import modules and hooks of other groups. Every other file of a group gets another group's parts as arguments. */
const CONNECTS = 'control/**/{module,hooks,watched,principal,own-tokens}.ts'

/** What the other files of a group may import from another group. */
const ARROWS: { files: string; may: string; why: string }[] = [
  {
    files: 'control/*/**',
    may: 'control/{module,service/system/{components,missing}}.ts',
    why: 'the shapes of what a group brings',
  },
  {
    files: 'control/*/**',
    may: 'control/service/dashboard/pages.ts',
    why: 'a page that stands alone is filled in, and has its headers, in one way',
  },
  {
    files: 'control/apps/{deployments,invocations}/**',
    may: 'control/apps/apps/*.ts',
    why: 'apps/ has what builds and runs share: the client of runners, and following events',
  },
  {
    files: 'control/sessions/{proxies,telemetry/destinations}/references.ts',
    may: 'control/sessions/browsers/options/look-up.ts',
    why: 'a group looks up what an option of browsers names (types only)',
  },
  {
    files: 'control/sessions/browser-pools/pools.ts',
    may: 'control/sessions/browsers/{fitter,fleet,acquisitions,refused,fleet/settings,options/look-up}.ts',
    why: 'the browsers of a pool are sessions: it says which, and browsers/ makes, lends and ends them',
  },
  {
    files: 'control/sessions/browser-pools/pools.ts',
    may: 'control/sessions/profiles/profiles.ts',
    why: 'a pool looks up its profile as a session does (types only)',
  },
  {
    files: 'control/sessions/{live,replays}/**',
    may: 'control/sessions/telemetry/{read,shown/*}.ts',
    why: 'the pages for people show events in the same form',
  },
  {
    files: 'control/sessions/profiles/profiles.ts',
    may: 'control/sessions/browsers/session-profiles.ts',
    why: 'it implements what sessions need of profiles (types only)',
  },
  { files: 'control/*/*/**', may: 'control/sessions/browsers/end-step.ts', why: 'a group adds its step to the end of a session (types only)' },
  {
    files: 'control/logins/auth-connections/browsers.ts',
    may: 'control/sessions/{browsers/{browsers,rows},replays/replays}.ts',
    why: 'the browser of a login is a session, which may be recorded (types only)',
  },
  {
    files: 'control/access/{sign-in,oauth}/**',
    may: 'control/access/members/person.ts',
    why: 'a sign-in is that of a person, who has roles',
  },
  {
    files: 'control/access/*/**',
    may: 'control/access/projects/{projects,resolve}.ts',
    why: 'which project a call means, and that a key is one of the organization, is asked by each group of this wing',
  },
  {
    files: 'control/sessions/live/routes.ts',
    may: 'control/sessions/browsers/sockets.ts',
    why: 'a viewer is one of the sockets of a session, and closed with them (types only)',
  },
]

/** Imports that break the order of the wings. */
const UPWARDS: { files: string; may: string; why: string }[] = [
  {
    files: 'control/service/{rotation,doctor}.ts',
    may: 'control/modules.ts',
    why: 'what a command does to all groups is a fold over the list',
  },
  {
    files: 'control/service/backup/restored-rows.ts',
    may: 'control/{logins/auth-connections,sessions/browsers,apps/deployments,apps/invocations}/{lifecycle,end-step}.ts',
    why: 'what was running in a backup has ended for the restored service: its rows move as others do',
  },
  {
    files: 'control/service/system/module.ts',
    may: 'control/access/projects/projects.ts',
    why: 'figures of all projects are for keys of the organization',
  },
]

interface Import {
  from: string
  /** A path below src/, or a package's name. */
  to: string
  typeOnly: boolean
}

const SRC = join(PACKAGE_DIR, 'src')
const everyFile = readdirSync(SRC, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => relative(SRC, join(entry.parentPath, entry.name)))
  .sort()
// Tests may import from any room.
const files = everyFile.filter((file) => /\.(ts|js|mjs)$/.test(file) && !/\.(test|suite|d)\.ts$/.test(file))
const text = (file: string): string => readFileSync(join(SRC, file), 'utf8')
const imports = files.flatMap((file) => importsOf(file, text(file)))

/** The static and dynamic imports and the re-exports of a file, without Node's own modules. */
function importsOf(from: string, source: string): Import[] {
  const found: { to: string; typeOnly: boolean }[] = []
  for (const [, type, to] of source.matchAll(/^\s*(?:import|export)\s+(type\s)?(?:[\w*{][^'"]*?\sfrom\s+)?['"]([^'"]+)['"]/gm))
    found.push({ to: to!, typeOnly: type !== undefined })
  for (const [, before, to] of source.matchAll(/(.?)\bimport\(\s*['"]([^'"]+)['"]\s*\)/g)) found.push({ to: to!, typeOnly: before === '<' })
  return found
    .filter(({ to }) => !to.startsWith('node:'))
    .map(({ to, typeOnly }) => ({ from, typeOnly, to: to.startsWith('.') ? relative(SRC, join(SRC, dirname(from), to)) : packageOf(to) }))
}

function packageOf(specifier: string): string {
  return specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/')
}

const isOurs = (to: string): boolean => everyFile.includes(to)
const show = ({ from, to, typeOnly }: Import): string => `src/${from} imports ${typeOnly ? 'types of ' : ''}${isOurs(to) ? 'src/' : ''}${to}`

function isAllowed(rule: Rule, { to }: Import): boolean {
  if (!isOurs(to)) return rule.packages?.includes(to) ?? true
  return rule.may.some((pattern) => matchesGlob(to, pattern))
}

describe('the rooms of the code', () => {
  test('contain every file of src/', () => {
    expect(files.filter((file) => !RULES.some((rule) => matchesGlob(file, rule.files)))).toEqual([])
  })

  test.each(RULES)('$files: $why', (rule) => {
    const mine = imports.filter(({ from }) => RULES.find((other) => matchesGlob(from, other.files)) === rule)
    expect(mine.filter((line) => !isAllowed(rule, line)).map(show)).toEqual([])
  })

  test('are checked with every import of src/', () => {
    const lines = files.flatMap((file) => text(file).split('\n'))
    const words = lines.filter((line) => /\bfrom '[^']+'|\bimport\('|^import '/.test(line) && !/^\s*(\/\/|\*)/.test(line) && !line.includes("'node:"))
    expect(imports.length).toBeGreaterThanOrEqual(words.length)
  })

  test('have only imports of files that exist, with their extension', () => {
    const relatives = files.flatMap((file) =>
      [...text(file).matchAll(/(?:\sfrom\s+|\bimport\(\s*)'(\.[^']*)'/g)].map(([, to]) => ({
        from: file,
        to: relative(SRC, join(SRC, dirname(file), to!)),
        typeOnly: false,
      })),
    )
    expect(relatives.filter(({ to }) => !everyFile.includes(to)).map(show)).toEqual([])
  })

  const between = (part: (file: string) => string | undefined) =>
    imports.filter(({ from, to }) => part(from) && part(to) && part(from) !== part(to) && !to.endsWith('/contract.ts'))
  const allowedBy = (arrows: typeof ARROWS, { from, to }: Import) => arrows.findIndex(({ files, may }) => matchesGlob(from, files) && matchesGlob(to, may))
  /** An arrow that is no longer used must go, or the import could come back unnoticed. */
  const unused = (arrows: typeof ARROWS, lines: Import[]) => {
    const used = new Set(lines.map((line) => allowedBy(arrows, line)))
    return arrows.filter((_, at) => !used.has(at)).map(({ files, may }) => `${files} -> ${may}`)
  }

  test('of control/ know of other groups only contracts, where they are not connected, and what the table names', () => {
    const group = (file: string): string | undefined =>
      /^control\/[^/]+\/[^/]+(?=\/)/.exec(file)?.[0] ?? (/^control\/modules?\.ts$/.test(file) ? file : undefined)
    const lines = between(group).filter(({ from }) => from.startsWith('control/') && from.split('/').length > 3 && !matchesGlob(from, CONNECTS))
    expect(lines.filter((line) => allowedBy(ARROWS, line) === -1 && allowedBy(UPWARDS, line) === -1).map(show)).toEqual([])
    expect(unused(ARROWS, lines)).toEqual([])
  })

  test('of control/ are in wings whose arrows go one way', () => {
    const wing = (file: string): string | undefined => /^control\/(\w+)\//.exec(file)?.[1] ?? (file === 'control/modules.ts' ? 'modules' : undefined)
    const lines = between(wing).filter(({ from, to }) => wing(from) !== 'modules' && !WINGS[wing(from)!]!.includes(wing(to)!))
    expect(lines.filter((line) => allowedBy(UPWARDS, line) === -1).map(show)).toEqual([])
    expect(unused(UPWARDS, lines)).toEqual([])
  })

  test('of control/ lie in a wing, but for the start, what a module is, and the list', () => {
    const loose = everyFile.filter((file) => /^control\/[^/]+$/.test(file) && !file.endsWith('.test.ts'))
    expect(loose).toEqual(['control/main.ts', 'control/module.ts', 'control/modules.ts'])
  })

  test('import only run-time dependencies from npm', () => {
    const { dependencies } = JSON.parse(readFileSync(join(PACKAGE_DIR, 'package.json'), 'utf8')) as { dependencies: Record<string, string> }
    expect(imports.filter(({ to, typeOnly }) => !isOurs(to) && !typeOnly && !(to in dependencies)).map(show)).toEqual([])
  })

  test('have no import cycles', () => {
    expect(cycles()).toEqual([])
  })

  test('have no function with more than 120 lines, but for those of the list', async () => {
    expect(await longFunctions()).toEqual(LONG)
  })

  test('have a first line in every file that says what the file contains', () => {
    expect(everyFile.filter((file) => /\.(ts|js|mjs)$/.test(file) && !file.endsWith('.d.ts') && !text(file).startsWith('// '))).toEqual([])
  })
})

describe('the dashboard in web/', () => {
  const WEB = join(PACKAGE_DIR, 'web')
  const found = readdirSync(WEB, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
  const pages = found.filter((file) => file.startsWith(join(WEB, 'src')))
  const read = (file: string): string => readFileSync(file, 'utf8')
  const web = (file: string): string => relative(PACKAGE_DIR, file)
  test('its pages see the types of contracts and of the client, nothing else of src/: whatever they import, people load', () => {
    expect(pages.length).toBeGreaterThan(10)
    const bad = pages.flatMap((file) =>
      [...read(file).matchAll(/^\s*(import|export)\s+(type\s)?[^'"]*?['"](\.[^'"]+)['"]/gm)].flatMap(([, , type, to]) => {
        const target = relative(PACKAGE_DIR, join(dirname(file), to!))
        if (target.startsWith('web/src/')) return []
        const isAllowed = type !== undefined && (target.endsWith('/contract.ts') || ['src/http/client.ts', 'src/http/route.ts'].includes(target))
        return isAllowed ? [] : [`${web(file)} imports ${target}`]
      }),
    )
    expect(bad).toEqual([])
  })

  test('makes markup of React elements only: what a session says never becomes HTML, an address of a script, or code', () => {
    const unsafe = /dangerouslySetInnerHTML|\.innerHTML|\.outerHTML|insertAdjacentHTML|document\.write|srcDoc|\beval\(|new Function|createPolicy/
    expect(pages.filter((file) => unsafe.test(read(file))).map(web)).toEqual([])
  })

  test('has a first line in every file that says what the file contains', () => {
    expect(found.filter((file) => !read(file).startsWith('// ')).map(web)).toEqual([])
  })
})

/** Each cycle of imports, once, as `a -> b -> a`. Type-only imports count. */
function cycles(): string[] {
  const runs = Map.groupBy(
    imports.filter(({ to }) => isOurs(to)),
    ({ from }) => from,
  )
  const found = new Map<string, string>()
  const done = new Set<string>()
  const visit = (file: string, way: string[]): void => {
    if (way.includes(file)) {
      const cycle = way.slice(way.indexOf(file))
      found.set(cycle.toSorted().join(), [...cycle, file].join(' -> '))
      return
    }
    if (done.has(file)) return
    for (const { to } of runs.get(file) ?? []) visit(to, [...way, file])
    done.add(file)
  }
  for (const file of files) visit(file, [])
  return [...found.values()]
}

/** The linter's findings, each as `file name`. */
function longFunctions(): Promise<string[]> {
  const { promise, resolve, reject } = Promise.withResolvers<string[]>()
  const oxlint = join(PACKAGE_DIR, 'node_modules/.bin/oxlint')
  const args = ['-c', 'test/long-functions.json', '-f', 'json', '--ignore-pattern', '**/*.{test,suite}.ts', 'src', 'web/src']
  execFile(oxlint, args, { cwd: PACKAGE_DIR, timeout: 60_000 }, (error, stdout) => {
    // The linter exits with 1 when it has findings.
    if (error && error.code !== 1) return reject(error)
    const { diagnostics } = JSON.parse(stdout) as { diagnostics: { filename: string; message: string }[] }
    resolve(diagnostics.map(({ filename, message }) => `${filename} ${/`(.+?)`/.exec(message)?.[1] ?? 'without a name'}`).sort())
  })
  return promise
}
