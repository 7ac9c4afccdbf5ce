// A vitest reporter that ends a run with what one wants to know of a long log: the slowest tests, and after them what failed, a line each.
import type { Reporter, TestCase, TestModule, TestSuite } from 'vitest/node'

/** How many tests are listed. */
const LISTED = 20
/** How much of an error is shown. The whole of it is further up. */
const SHOWN = 300

interface Ran {
  file: string
  name: string
  /** Undefined for a test that did not run. */
  ms: number | undefined
}

/** The `LISTED` slowest tests that ran, slowest first, a line each: seconds, file, name. */
function slowest(tests: readonly Ran[]): string[] {
  return tests
    .filter((test): test is Ran & { ms: number } => test.ms !== undefined)
    .sort((a, b) => b.ms - a.ms)
    .slice(0, LISTED)
    .map(({ file, name, ms }) => `${(ms / 1000).toFixed(1).padStart(6)} s  ${file} > ${name}`)
}

interface Reported {
  message: string
}

/** What of a file failed: itself, a group of its tests (in a hook), a test. A line each: file, name, the first error. */
function failures(module: TestModule): string[] {
  const line = (name: string, errors: readonly Reported[]) => {
    const [first] = errors
    return first ? [`   ${[module.relativeModuleId, name].filter(Boolean).join(' > ')}: ${first.message.replaceAll(/\s+/g, ' ').slice(0, SHOWN)}`] : []
  }
  const suites: TestSuite[] = [...module.children.allSuites()]
  const tests: TestCase[] = [...module.children.allTests()]
  return [
    ...line('', module.errors()),
    ...suites.flatMap((suite) => line(suite.fullName, suite.errors())),
    ...tests.flatMap((test) => line(test.fullName, test.result().errors ?? [])),
  ]
}

export default class Summary implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly Reported[]): void {
    print('The slowest tests (without the hooks of their files)', slowest(modules.flatMap((module) => [...module.children.allTests()].map(ran))))
    print('Failed', [...modules.flatMap(failures), ...unhandled.map(({ message }) => `   outside of tests: ${message.slice(0, SHOWN)}`)])
  }
}

function print(title: string, lines: readonly string[]): void {
  if (lines.length > 0) console.log(`\n ${title}\n${lines.join('\n')}\n`)
}

const ran = (test: TestCase): Ran => ({ file: test.module.relativeModuleId, name: test.fullName, ms: test.diagnostic()?.duration })
