// Loads the runner's code to fill V8's compile cache. The driver runs it once, never together with an app's code.
import { flushCompileCache } from 'node:module'

await Promise.all([import('./main.ts'), import('./run.ts'), import('./carry.ts'), import('../base/anonymous.ts')])
flushCompileCache()
