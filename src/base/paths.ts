// The paths of files: the layout of the data directory, and the folders of the checkout.
import { chmodSync, mkdirSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The checkout (or installed package) that this program runs from. */
export const PACKAGE_DIR = resolve(dirname(fileURLToPath(import.meta.url)), '../..')

// The path of a Unix socket holds 107 bytes; ours add at most "/instances/<24>/agent.sock.new".
const MAX_DATA_DIR = 107 - '/instances/'.length - 24 - '/agent.sock.new'.length

export type DataPaths = ReturnType<typeof dataPaths>

/** Makes the data directory and names its parts. @throws when the path of a socket inside would be too long. */
export function dataPaths(dir: string) {
  const root = resolve(dir)
  if (Buffer.byteLength(root) > MAX_DATA_DIR)
    throw new Error(`the data directory's path is longer than ${MAX_DATA_DIR} bytes, too long for the sockets in it: ${root} (set COB_DATA_DIR)`)
  mkdirSync(root, { recursive: true, mode: 0o700 })
  chmodSync(root, 0o700)
  const instances = join(root, 'instances')
  const appSandboxes = join(root, 'runs')
  const audit = join(root, 'audit')
  for (const folder of [instances, appSandboxes, audit, join(root, 'apps'), join(root, 'objects')]) mkdirSync(folder, { recursive: true, mode: 0o700 })
  return {
    root,
    postgres: join(root, 'postgres'),
    postgresSocket: join(root, 'pg'),
    instances,
    apiKey: join(root, 'api-key'),
    secretKey: join(root, 'secret-key'),
    // The keys that encrypt stored values, once there are others than the one above.
    sealingKeys: join(root, 'sealing-keys'),
    hostId: join(root, 'host-id'),
    instance: (id: string): string => join(instances, id),
    // Directories of apps, builds and runs: one each, like instances.
    appSandboxes,
    appSandbox: (id: string): string => join(appSandboxes, id),
    // Built code, one directory per deployment.
    apps: join(root, 'apps'),
    // Downloads of package managers.
    buildCache: join(root, 'build-cache'),
    objects: join(root, 'objects'),
    // Recordings that are not complete.
    spool: join(root, 'spool'),
    // Entries of the audit log that are not in the database yet.
    audit,
    // Files of ended sandboxes, until they are removed.
    trash: join(root, 'trash'),
  }
}
