// Corrects `process.execPath` in sandboxes. Node takes it from the file that the kernel executed, and in sandboxes this file is a copy of the dynamic loader
// (instances/local/loader.ts). Child processes that are started by `process.execPath` must run Node. Import this module for its side effect.
import { isAbsolute } from 'node:path'

if (isAbsolute(process.argv0)) process.execPath = process.argv0
