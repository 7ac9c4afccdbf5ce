// The accessibility problems that axe finds in a page.
import axe from 'axe-core'
import type { Page } from 'playwright-core'

/** One line for each problem in the page as it is now. */
export async function problemsOf(page: Page): Promise<string[]> {
  // The page's trusted types forbid a script element with text. `evaluate` runs axe through CDP, which they do not restrict.
  const run = `(async () => { ${axe.source}; return axe.run(document, { resultTypes: ['violations'] }) })()`
  const { violations } = (await page.evaluate(run)) as { violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] }
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).join('\n')}`)
}

/** How many pixels the page is wider than its screen. */
export const tooWide = (page: Page): Promise<number> => page.evaluate('Math.max(0, document.documentElement.scrollWidth - innerWidth)')
