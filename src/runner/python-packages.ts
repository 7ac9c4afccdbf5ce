// The packages of a Python app, in a virtual environment of its own beside the code. The app itself is never installed.
import { existsSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { CODE, VENV, type RunnerPaths } from './limits.ts'
import { BuildFailed, type Tools } from './tools.ts'

const VENV_MS = 120_000
const INSTALL_MS = 10 * 60_000
const COMPILE_MS = 5 * 60_000

/**
 * pip, keeping what it downloads also where the index does not say how long that may be done (company mirrors, proxies): such
 * a file is taken from the cache for a day. What an index says itself (pypi.org: for ever) goes first, and its pages are
 * always asked for anew. pip has no option for this, so its session is given the rule.
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

/** Prints what [project] asks for, and what of that the lockfile has not. */
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

/** Makes the environment and installs what the app in `root` names. */
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
    // A file of the index was replaced by another of the same name after it had been kept.
    if (!(error instanceof BuildFailed) || !/DO NOT MATCH THE HASHES/.test(error.message)) throw error
    tools.say('a kept download does not match the index any more; downloading everything again')
    return install(['--no-cache-dir'])
  })
}

/** What a pyproject.toml names could be taken for options. */
function options(args: readonly string[]): readonly string[] {
  return args[0] === '-r' ? args : ['--', ...args]
}

interface Project {
  /** Requirements, as pyproject.toml has them. */
  wanted: string[]
  /** Names of those that uv.lock does not have. */
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
  // Without --frozen, uv looks for what is missing and keeps the rest of the lockfile.
  const frozen = missing.length > 0 ? [] : ['--frozen']
  await tools.must(uv, ['sync', ...frozen, '--no-install-project', '--no-dev', '--no-progress'], {
    what: ['uv sync', ...frozen].join(' '),
    cwd: root,
    ms: INSTALL_MS,
    // A Python that the app asks for and the system has not comes with the app.
    env: { UV_PROJECT_ENVIRONMENT: venv, UV_PYTHON_INSTALL_DIR: join(app, 'python'), VIRTUAL_ENV: undefined },
  })
}

/** The environment with the installer `name`, made once for all builds; two that make it at once do not meet. */
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

/** Compiles everything ahead: runs cannot write, and would do it each time. Files are never newer than what was made of them here. */
export async function compilePython(paths: RunnerPaths, tools: Tools): Promise<void> {
  const python = join(paths.app, VENV, 'bin/python')
  const folders = [join(paths.app, CODE), join(paths.app, VENV, 'lib')]
  // Packages bring files for other versions of Python; what cannot be compiled is nobody's loss.
  await tools.run(python, ['-m', 'compileall', '-qq', '--invalidation-mode', 'unchecked-hash', ...folders], {
    what: 'compiling Python files',
    cwd: paths.app,
    ms: COMPILE_MS,
    take: () => {},
  })
}
