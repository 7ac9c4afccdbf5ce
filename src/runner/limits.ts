// Paths and limits of a runner. In a file without zod, because loading zod would delay the start of a run.

/** Paths inside an app's sandbox. */
export interface RunnerPaths {
  /** RunnerSpec as JSON. Only the runner should read it, but the app has the same user. A run's other files are in the same folder. */
  spec: string
  /** The deployment's folder: `code/` (the app's tree with its dependencies), `manifest.json`, `compile-cache/`. Builds write it, runs read it. */
  app: string
  /** The package managers' download cache, shared by all builds. Runs do not have it. */
  cache: string
}

export const RUNNER_PATHS: RunnerPaths = { spec: '/run/cob/runner.json', app: '/app', cache: '/cache' }

/** The longest log line, in bytes; a longer one is cut. */
export const MAX_LOG_LINE = 64 * 1024
/** The largest output of an action, in bytes of JSON text, the same as the largest payload; a larger one fails the run. */
export const MAX_OUTPUT_BYTES = 4_718_592
/** Unacknowledged events, in bytes. Above this, the app's output is not read, so an app that keeps printing blocks. */
export const MAX_UNREAD_BYTES = 8 * 1024 * 1024
/** The longest failure reason, in characters; the logs have the rest. */
export const MAX_REASON = 16 * 1024

/** Inside the deployment's folder. */
export const CODE = 'code'
export const MANIFEST = 'manifest.json'
export const COMPILE_CACHE = 'compile-cache'
export const VENV = 'venv'

/** A build's result, for its runs. One line of JSON with `language` first, because the shell that starts a run checks only that. */
export interface Manifest {
  language: 'node' | 'python'
  /** The file to import, below `code/`; for TypeScript the bundle. */
  entrypoint: string
  /** The app's folder below `code/`, which is its working directory; '' for the root. */
  folder: string
  /** Node: the modules whose `appRegistry` contains the apps. */
  registries?: { path: string; cjs: boolean }[]
  /** Node: whether stack traces need the bundle's source map. */
  sourceMaps?: boolean
}
