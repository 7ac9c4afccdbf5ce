// Installs the packages of a Python app into its own virtual environment beside the code. The app itself is never installed.
import { existsSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { CODE, VENV, type RunnerPaths } from './limits.ts'
import { BuildFailed, type Tools } from './tools.ts'

const VENV_MS = 120_000
const INSTALL_MS = 10 * 60_000
const COMPILE_MS = 5 * 60_000

/**
 * pip that also caches downloads when the index sends no cache headers (company mirrors, proxies): such a file is used from the cache for a day.
 * Cache headers of an index (pypi.org: for ever) take precedence, and index pages are always revalidated. pip has no option for this, so the rule is
 * added to its session.
 */
const PIP = `
import runpy
try:
    from pip._vendor.cachecontrol import CacheControlAdapter
    from pip._vendor.cachecontrol.heuristics import BaseHeuristic
except ImportError: # another pip than those we know: it keeps what it keeps by itself
    pass
else:
    class FilesForADay(BaseHeuristic):
        def update_headers(self, response):
            kind = response.headers.get("content-type", "")
            told = any(name in response.headers for name in ("cache-control", "expires", "etag"))
            return {} if told or "html" in kind or "json" in kind else {"cache-control": "max-age=86400"}
        def warning(self, response): return None
    init = CacheControlAdapter.__init__
    def with_rule(self, *args, **options): init(self, *args, **{"heuristic": FilesForADay(), **options})
    CacheControlAdapter.__init__ = with_rule
runpy.run_module("pip", run_name="__main__", alter_sys=True)
`

/** Prints the requirements of [project], and those of them that the lockfile lacks. */
const READ_PROJECT = `
import json, os, re, sys, tomllib
def name(wanted): return re.sub(r"[-_.]+", "-", re.match(r"[A-Za-z0-9._-]*", wanted.strip()).group()).lower()
with open("pyproject.toml", "rb") as file: project = tomllib.load(file).get("project", {})
if "dependencies" in project.get("dynamic", []): sys.exit("[project].dependencies of pyproject.toml is dynamic; it must be a list")
wanted, missing = project.get("dependencies", []), []
if os.path.exists("uv.lock"):
    with open("uv.lock", "rb") as file: locked = tomllib.load(file).get("package", [])
    own = [one for one in locked if name(one.get("name", "")) == name(project.get("name", ""))]
    asked = {name(one["name"]) for package in own for one in package.get("metadata", {}).get("requires-dist", [])}
    missing = [name(line) for line in wanted if own and name(line) not in asked]
print(json.dumps({"wanted": wanted, "missing": missing}))
`

/** Makes the environment and installs the packages that the app in `root` requires. */
export async function installPython(root: string, paths: RunnerPaths, tools: Tools): Promise<void> {
  const venv = join(paths.app, VENV)
  const has = (name: string) => existsSync(join(root, name))
  if (has('uv.lock')) return withUv(root, venv, paths, tools)
  const wanted = has('pyproject.toml') ? (await readProject(root, tools)).wanted : []
  const args = has('pyproject.toml') ? wanted : has('requirements.txt') ? ['-r', 'requirements.txt'] : []
  if (args.length === 0) {
    tools.say('no dependencies in pyproject.toml or requirements.txt: nothing to install')
    return makeVenv(venv, ['--without-pip'], root, tools)
  }
  await makeVenv(venv, [], root, tools)
  const what = `pip install ${args.join(' ')}`
  const install = (flags: string[]) =>
    tools.must(join(venv, 'bin/python'), ['-c', PIP, 'install', '--no-compile', '--progress-bar=off', ...flags, ...options(args)], {
      what,
      cwd: root,
      ms: INSTALL_MS,
    })
  await install([]).catch((error: unknown) => {
    // The index has replaced a cached file by another one of the same name.
    if (!(error instanceof BuildFailed) || !/DO NOT MATCH THE HASHES/.test(error.message)) throw error
    tools.say('a cached download does not match the index any longer; downloading everything again')
    return install(['--no-cache-dir'])
  })
}

/** Guards against requirements in pyproject.toml that pip would read as options. */
function options(args: readonly string[]): readonly string[] {
  return args[0] === '-r' ? args : ['--', ...args]
}

interface Project {
  /** Requirements in the syntax of pyproject.toml. */
  wanted: string[]
  /** Names of those that are not in uv.lock. */
  missing: string[]
}

async function readProject(root: string, tools: Tools): Promise<Project> {
  let report = ''
  const take = (line: string) => (report = line)
  const { code, said } = await tools.run('python3', ['-c', READ_PROJECT], { what: 'reading pyproject.toml', cwd: root, ms: 30_000, take })
  if (code !== 0) throw new BuildFailed(`pyproject.toml could not be read: ${said.last}`)
  return JSON.parse(report) as Project
}

async function withUv(root: string, venv: string, { app }: RunnerPaths, tools: Tools): Promise<void> {
  if (!existsSync(join(root, 'pyproject.toml'))) throw new BuildFailed('there is a uv.lock, but no pyproject.toml beside it')
  const { missing } = await readProject(root, tools)
  const uv = join(await kept('uv', tools), 'bin/uv')
  if (missing.length > 0)
    tools.say(`WARNING: uv.lock does not match pyproject.toml, it lacks ${missing.join(', ')}; installing by pyproject.toml. Run "uv lock" and deploy again`)
  // Without --frozen, uv resolves the missing packages and keeps the rest of the lockfile.
  const frozen = missing.length > 0 ? [] : ['--frozen']
  await tools.must(uv, ['sync', ...frozen, '--no-install-project', '--no-dev', '--no-progress'], {
    what: ['uv sync', ...frozen].join(' '),
    cwd: root,
    ms: INSTALL_MS,
    // When the system lacks the Python version that the app requires, uv installs it into the app's folder.
    env: { UV_PROJECT_ENVIRONMENT: venv, UV_PYTHON_INSTALL_DIR: join(app, 'python'), VIRTUAL_ENV: undefined },
  })
}

/** The environment with the installer `name`, made once for all builds. Two builds may make it at the same time: the first rename wins. */
async function kept(name: 'pip' | 'uv', tools: Tools): Promise<string> {
  const home = join(tools.cache, `${name}-tool`)
  if (existsSync(home)) return home
  const made = mkdtempSync(`${home}-`)
  await makeVenv(made, [], tools.cache, tools)
  if (name === 'uv') {
    const pip = ['-m', 'pip', 'install', '--progress-bar=off', 'uv']
    await tools.must(join(made, 'bin/python'), pip, { what: 'pip install uv', cwd: tools.cache, ms: INSTALL_MS })
  }
  try {
    renameSync(made, home)
  } catch (error) {
    if (!existsSync(home)) throw error
    rmSync(made, { recursive: true })
  }
  return home
}

async function makeVenv(venv: string, args: string[], cwd: string, tools: Tools): Promise<void> {
  await tools.must('python3', ['-m', 'venv', '--clear', ...args, venv], { what: 'python3 -m venv', cwd, ms: VENV_MS })
}

/** Compiles all files now, because runs cannot write and would compile them each time. Unchecked hashes are safe: the files never change after the build. */
export async function compilePython(paths: RunnerPaths, tools: Tools): Promise<void> {
  const python = join(paths.app, VENV, 'bin/python')
  const folders = [join(paths.app, CODE), join(paths.app, VENV, 'lib')]
  // Some packages contain files for other Python versions; ignore what cannot be compiled.
  await tools.run(python, ['-m', 'compileall', '-qq', '--invalidation-mode', 'unchecked-hash', ...folders], {
    what: 'compiling Python files',
    cwd: paths.app,
    ms: COMPILE_MS,
    take: () => {},
  })
}
