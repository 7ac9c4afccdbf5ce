// A vitest reporter that prints the slowest tests of a run at its end.
import type { Reporter, TestCase, TestModule } from 'vitest/node'

/** How many tests are listed. */
const LISTED = 20

interface Timed {
  file: string
  name: string
  /** Undefined for a test that did not run. */
  ms: number | undefined
}

/** The `LISTED` slowest tests that ran, slowest first, a line each: seconds, file, name. */
function slowest(tests: readonly Timed[]): string[] {
  return tests
    .filter((test): test is Timed & { ms: number } => test.ms !== undefined)
    .sort((a, b) => b.ms - a.ms)
    .slice(0, LISTED)
    .map(({ file, name, ms }) => `${(ms / 1000).toFixed(1).padStart(6)} s  ${file} > ${name}`)
}

export default class Slowest implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const lines = slowest(modules.flatMap((module) => [...module.children.allTests()].map(timed)))
    if (lines.length > 0) console.log(`\n The slowest tests (without the hooks of their files)\n${lines.join('\n')}\n`)
  }
}

const timed = (test: TestCase): Timed => ({ file: test.module.relativeModuleId, name: test.fullName, ms: test.diagnostic()?.duration })
