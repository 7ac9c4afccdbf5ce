// The agent's code as a few JavaScript files instead of four hundred, for the sandboxes of this machine: half of an agent's start was finding, reading and
// checking files. Nobody writes or keeps these files: they are made from the sources, with the compiled code (agent-cache.ts).
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Plugin } from 'esbuild'
import { bundling, OWN_PLACE, ownPlace } from '../../base/bundler.ts'
import { PACKAGE_DIR } from '../../base/paths.ts'
import { within } from '../../base/wait.ts'

/** It takes 0.4 s. */
const BUNDLE_MS = 60_000

/** Where sandboxes see the package. */
const INSIDE = '/opt/cob'

/**
 * The files in the folder of {@link bundleAgent}: the agent's entry, and the X client, whose path in a stack trace shows that the error is the reader's
 * (agent/guard.ts).
 */
export const AGENT_FILE = 'agent.mjs'
const X_CLIENT = 'node_modules/x11/index.mjs'

/** A package with machine code. It stays where it is. */
const NATIVE = '@lydell/node-pty'

/** Writes the agent's code to `folder`, as `inside` (its path in a sandbox) expects it. */
export async function bundleAgent(folder: string, signal: AbortSignal): Promise<void> {
  const common = {
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node24',
    preserveSymlinks: true,
    logLevel: 'silent',
    define: OWN_PLACE,
    // An aborted build must not continue writing: its folder is being removed.
    write: false,
    outExtension: { '.js': '.mjs' },
    banner: { js: `import { createRequire as __cob_require } from 'node:module'; const require = __cob_require(import.meta.url);` },
  } as const
  const agent = { agent: join(PACKAGE_DIR, 'src/agent/main.ts') }
  const x11 = { index: join(PACKAGE_DIR, 'node_modules/x11/lib/index.js') }
  const built = await bundling((esbuild) => {
    const builds = [
      esbuild.build({ ...common, entryPoints: agent, outdir: folder, plugins: [elsewhere, ownFiles] }),
      esbuild.build({ ...common, entryPoints: x11, outdir: join(folder, dirname(X_CLIENT)), plugins: [ownFiles] }),
    ]
    return within("the agent's code to be bundled", BUNDLE_MS, Promise.all(builds), signal)
  })
  for (const { path, contents } of built.flatMap(({ outputFiles }) => outputFiles)) {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, contents)
  }
}

/** Files next to a source file are found at their place in the sandbox. */
const ownFiles = ownPlace((path) => path.replace(PACKAGE_DIR, INSIDE))

/** Packages that are not part of the agent's file. */
const elsewhere: Plugin = {
  name: 'elsewhere',
  setup(build) {
    build.onResolve({ filter: /^x11$/ }, () => ({ path: `./${X_CLIENT}`, external: true }))
    build.onResolve({ filter: new RegExp(`^${NATIVE}$`) }, () => {
      const { main } = JSON.parse(readFileSync(join(PACKAGE_DIR, 'node_modules', NATIVE, 'package.json'), 'utf8')) as { main: string }
      return { path: join(INSIDE, 'node_modules', NATIVE, main), external: true }
    })
  },
}
