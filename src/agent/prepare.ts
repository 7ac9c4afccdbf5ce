// Loads the code of programs that the agent starts beside itself, to fill V8's compile cache: the mapper's thread and Playwright's worker. The agent's own
// code is compiled by a run of the agent (AgentSpec.isTrial). The driver runs this once, never in a session.
import { flushCompileCache } from 'node:module'

await Promise.all([import('./chromium/bidi-mapper.ts'), import('./playwright/runs.ts')])
flushCompileCache()
