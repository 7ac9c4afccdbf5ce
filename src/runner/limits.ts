// Calls, paths and limits of a runner. In a file without zod, because loading zod would delay the start of a run.

/** The calls of a runner; contract.ts describes their inputs and answers. `status` is that of an answer without a body, unless it is 204. */
export const CALLS = {
  watch: { method: 'GET', path: '/session/watch' },
  sendArchive: { method: 'PUT', path: '/archive' },
  packedCode: { method: 'GET', path: '/code' },
  unpackCode: { method: 'PUT', path: '/code' },
  ready: { method: 'GET', path: '/ready' },
  run: { method: 'POST', path: '/runs', status: 202 },
  events: { method: 'GET', path: '/events' },
  acknowledge: { method: 'POST', path: '/ack' },
} as const
export type CallName = keyof typeof CALLS

/** Paths inside an app's sandbox. */
export interface RunnerPaths {
  /** RunnerSpec as JSON. Only the runner should read it, but the app has the same user. A run's other files are in the same folder. */
  spec: string
  /** The deployment's folder: `code/` (the app's tree with its dependencies), `manifest.json`, `compile-cache/`. Builds and unpacking write it, runs read it. */
  app: string
  /** The package managers' download cache, shared by all builds. Runs do not have it. */
  cache: string
  /** The file with the packed code, on the disk of the sandbox that packs it. */
  packed: string
}

export const RUNNER_PATHS: RunnerPaths = { spec: '/run/cob/runner.json', app: '/app', cache: '/cache', packed: '/home/kernel/.cob-code.tar.zst' }

/** The longest log line, in bytes; a longer one is cut. */
export const MAX_LOG_LINE = 64 * 1024
/** The largest output of an action, in bytes of JSON text, the same as the largest payload; a larger one fails the run. */
export const MAX_OUTPUT_BYTES = 4_718_592
/** The longest body of a request other than the archive, in bytes: a payload is JSON inside a JSON string, where a byte may take six. */
export const MAX_BODY_BYTES = 6 * MAX_OUTPUT_BYTES + 64 * 1024
/** Unacknowledged events, in bytes. Above this, the app's output is not read, so an app that keeps printing blocks. */
export const MAX_UNREAD_BYTES = 8 * 1024 * 1024
/** The longest failure reason, in characters; the logs have the rest. */
export const MAX_REASON = 16 * 1024

/** The longest name of an app or action, in characters: people type them. */
export const MAX_NAME = 1024
/** Most apps and actions of a deployment. */
export const MAX_NAMES = 10_000

/** Inside the deployment's folder. */
export const CODE = 'code'
export const MANIFEST = 'manifest.json'
export const COMPILE_CACHE = 'compile-cache'
export const VENV = 'venv'
/** Temporary files of a build. They are below the deployment's folder, because /tmp is in memory; they are not packed. */
export const SCRATCH = '.build'

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
