// A vitest reporter that ends the log of a run with a summary: the slowest tests, then the failures, one line each.
import type { Reporter, TestCase, TestModule, TestSuite } from 'vitest/node'

/** The number of listed tests. */
const LISTED = 20
/** The number of characters of an error that are shown. The full error is further up in the log. */
const SHOWN = 300

interface Ran {
  file: string
  name: string
  /** Undefined for a test that did not run. */
  ms: number | undefined
}

/** The `LISTED` slowest tests that ran, slowest first, one line each: seconds, file, name. */
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

/** The failures of a file: of the file itself, of groups of tests (in a hook), and of tests. One line each: file, name, the first error. */
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
