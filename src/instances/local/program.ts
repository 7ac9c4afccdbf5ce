// The agent's code as a few JavaScript files instead of four hundred, for the sandboxes of this machine: half of an agent's start was finding, reading and
// checking files. Nobody writes or keeps these files: they are made from the sources, with the compiled code (agent-cache.ts).
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Plugin } from 'esbuild'
import { BUNDLE, X_CLIENT } from '../../agent/bundle-names.ts'
import { bundling, OWN_PLACE, ownPlace } from '../../base/bundler.ts'
import { PACKAGE_DIR } from '../../base/paths.ts'
import { within } from '../../base/wait.ts'

/** It takes 0.4 s. */
const BUNDLE_MS = 60_000

/** Where sandboxes see the package. */
const INSIDE = '/opt/cob'

/** The file in the folder of {@link bundleAgent} that starts the agent. */
export const AGENT_FILE = 'agent.mjs'

/** A package with machine code. It stays where it is. */
const NATIVE = '@lydell/node-pty'

/** Writes the agent's code to `folder`, as `inside` (its path in a sandbox) expects it. */
export async function bundleAgent(folder: string, signal: AbortSignal): Promise<void> {
  const common = {
    bundle: true,
    platform: 'node',
    format: 'cjs',
    target: 'node24',
    preserveSymlinks: true,
    logLevel: 'silent',
    // Without comments: Node reads the whole file at every start, and one character beyond Latin-1 would double it in memory.
    minifyWhitespace: true,
    legalComments: 'none',
    lineLimit: 160,
    define: OWN_PLACE,
    // An aborted build must not continue writing: its folder is being removed.
    write: false,
  } as const
  const agent = join(PACKAGE_DIR, 'src/agent/main.ts')
  const start = join(PACKAGE_DIR, 'src/agent/compiled.ts')
  const x11 = join(PACKAGE_DIR, 'node_modules/x11/lib/index.js')
  const built = await bundling((esbuild) => {
    const builds = [
      esbuild.build({ ...common, entryPoints: [agent], outfile: join(folder, BUNDLE), plugins: [elsewhere, ownFiles] }),
      esbuild.build({ ...common, entryPoints: [x11], outfile: join(folder, X_CLIENT), plugins: [ownFiles] }),
      // It finds the others beside itself.
      esbuild.build({ ...common, entryPoints: [start], outfile: join(folder, AGENT_FILE), format: 'esm', define: {} }),
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
