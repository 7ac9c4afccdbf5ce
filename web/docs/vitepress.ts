// Runs VitePress: makes the site in the folder `files` of the one that is given, with what it needs meanwhile beside it.
import { join } from 'node:path'
import { build } from 'vitepress'

const made = process.argv[2]!
await build(import.meta.dirname, {
  outDir: join(made, 'files'),
  // Usually a folder of the sources, which two builds at a time would share.
  onAfterConfigResolve: (config) => void (config.tempDir = join(made, 'temp')),
})
