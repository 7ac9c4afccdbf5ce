// The few files of /etc inside an instance: its own accounts, hosts and resolver, none of the host's.
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { NetworkPlan } from './network.ts'
import { systemCallFilter } from './system-calls.ts'

/** Parts of the host's /etc that programs need and that reveal nothing: fonts, certificates, library paths. */
export const SHARED_ETC = [
  'fonts',
  'ssl',
  'alternatives',
  'ld.so.cache',
  'ld.so.conf',
  'ld.so.conf.d',
  'ca-certificates',
  'mime.types',
  'gtk-3.0',
  'X11',
  'debian_version',
  'os-release',
]

/** Next to the files of /etc, for bwrap only: the system call filter. Empty where there is none for this processor. */
export const FILTER = 'system-calls.bpf'
const filter = systemCallFilter() ?? Buffer.alloc(0)

/** Next to the files of /etc, for the program that enters the network. Not visible inside. */
export const NETWORK_BATCH = '.network'

/** Writes the instance's own files of /etc below `dir`, {@link FILTER} and {@link NETWORK_BATCH}. Returns the names of the files of /etc. */
export async function writeGuestEtc(dir: string, { resolvConf, hosts, batch }: NetworkPlan): Promise<string[]> {
  await mkdir(dir, { recursive: true, mode: 0o755 })
  await chmod(dir, 0o755)
  const files: Record<string, string> = {
    passwd: 'root:x:0:0:root:/root:/bin/sh\nkernel:x:1000:1000:kernel:/home/kernel:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n',
    group: 'root:x:0:\nkernel:x:1000:\nnogroup:x:65534:\n',
    hosts,
    hostname: 'cob\n',
    'resolv.conf': resolvConf,
    'nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files dns\n',
    // The same for all instances: the machine's own id would identify the host.
    'machine-id': '00000000000000000000000000000000\n',
  }
  const all = { ...files, [FILTER]: filter, [NETWORK_BATCH]: batch }
  await Promise.all(Object.entries(all).map(([name, content]) => writeFile(join(dir, name), content, { mode: 0o644 })))
  return Object.keys(files)
}
