// Loads the runner's code and writes down what V8 made of it; run once by the driver, never beside an app's code.
import { flushCompileCache } from 'node:module'

await Promise.all([import('./main.ts'), import('./run.ts')])
flushCompileCache()
