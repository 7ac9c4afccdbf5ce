// The Playwright contract. Code that ran and failed is an answer like any other; an error is only what did not begin.
import type { Handlers } from '../../http/route.ts'
import type { playwright } from './contract.ts'
import type { Playwright } from './playwright.ts'

export const playwrightHandlers = ({ execute }: Playwright): Handlers<typeof playwright> => ({
  executePlaywright: ({ body, signal }) => execute(body.code, body.timeout_sec * 1000, signal),
})
