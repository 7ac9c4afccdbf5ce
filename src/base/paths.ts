// Where things lie: the data directory's layout and the checkout's own folders.
import { chmodSync, mkdirSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The checkout (or installed package) that this program runs from. */
export const PACKAGE_DIR = resolve(dirname(fileURLToPath(import.meta.url)), '../..')

// A Unix socket's path holds 107 bytes; ours add at most "/instances/<24>/agent.sock.new".
const MAX_DATA_DIR = 107 - '/instances/'.length - 24 - '/agent.sock.new'.length

export interface DataPaths {
  root: string
  postgres: string
  postgresSocket: string
  instances: string
  apiKey: string
  secretKey: string
  hostId: string
  instance(id: string): string
  /** Sandboxes of apps, builds and runs: like instances, a directory each. */
  appSandboxes: string
  appSandbox(id: string): string
  /** Built code, a directory a deployment. */
  apps: string
  /** Downloads of package managers. */
  buildCache: string
  /** Archives and other large things. */
  objects: string
  /** What ended sandboxes have left, until it is removed. */
  trash: string
}

/** Makes the data directory and names its parts. @throws when a socket inside would have too long a path. */
export function dataPaths(dir: string): DataPaths {
  const root = resolve(dir)
  if (Buffer.byteLength(root) > MAX_DATA_DIR)
    throw new Error(`the data directory's path is longer than ${MAX_DATA_DIR} bytes, too long for the sockets in it: ${root} (set COB_DATA_DIR)`)
  mkdirSync(root, { recursive: true, mode: 0o700 })
  chmodSync(root, 0o700)
  const instances = join(root, 'instances')
  const appSandboxes = join(root, 'runs')
  for (const folder of [instances, appSandboxes, join(root, 'apps'), join(root, 'objects')]) mkdirSync(folder, { recursive: true, mode: 0o700 })
  return {
    root,
    postgres: join(root, 'postgres'),
    postgresSocket: join(root, 'pg'),
    instances,
    apiKey: join(root, 'api-key'),
    secretKey: join(root, 'secret-key'),
    hostId: join(root, 'host-id'),
    instance: (id) => join(instances, id),
    appSandboxes,
    appSandbox: (id) => join(appSandboxes, id),
    apps: join(root, 'apps'),
    buildCache: join(root, 'build-cache'),
    objects: join(root, 'objects'),
    trash: join(root, 'trash'),
  }
}
