// Node takes the file that the kernel was told to run for its own program. For our processes in sandboxes that is a copy of the
// dynamic loader (instances/local/loader.ts); what they start by `process.execPath` is to be Node. Imported for this alone.
import { isAbsolute } from 'node:path'

if (isAbsolute(process.argv0)) process.execPath = process.argv0
