// Paths and limits of a runner, for the contract and for the runner itself, which has no time to load zod.

/** Where things are inside an app's sandbox. */
export interface RunnerPaths {
  /** RunnerSpec as JSON. Readable for the runner alone, as far as one user can be kept from oneself. A run's other files lie beside it. */
  spec: string
  /** The deployment's folder: `code/` (the app's tree with its dependencies), `manifest.json`, `compile-cache/`. Builds write it, runs read it. */
  app: string
  /** Downloads of package managers, kept from build to build. Only builds have it. */
  cache: string
}

export const RUNNER_PATHS: RunnerPaths = { spec: '/run/cob/runner.json', app: '/app', cache: '/cache' }

/** The longest line of output that is passed on, in bytes; the rest of a longer one is cut off. */
export const MAX_LOG_LINE = 64 * 1024
/** The largest output of an action, in bytes of JSON text; a larger one fails the run. As the largest payload. */
export const MAX_OUTPUT_BYTES = 4_718_592
/** Events that nobody has acknowledged, in bytes: from there on the app's output is not read, and an app that goes on printing waits. */
export const MAX_UNREAD_BYTES = 8 * 1024 * 1024
/** The longest reason of a failure, in characters; the rest is in the logs. */
export const MAX_REASON = 16 * 1024

/** Inside the deployment's folder. */
export const CODE = 'code'
export const MANIFEST = 'manifest.json'
export const COMPILE_CACHE = 'compile-cache'
export const VENV = 'venv'

/** What a build leaves for the runs. One line of JSON, `language` first: the shell that starts a run looks no further. */
export interface Manifest {
  language: 'node' | 'python'
  /** The file to import, below `code/`; for TypeScript the bundle. */
  entrypoint: string
  /** The folder of the app below `code/`: working directory of its code. '' for all of it. */
  folder: string
  /** Node: the modules whose `appRegistry` holds the apps. */
  registries?: { path: string; cjs: boolean }[]
  /** Node: whether stack traces need the bundle's source map. */
  sourceMaps?: boolean
}
