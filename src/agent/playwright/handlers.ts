// The Playwright handler. Code that ran and failed is a normal answer. Only code that did not begin is an error.
import type { Handlers } from '../../http/route.ts'
import type { playwright } from './contract.ts'
import type { Playwright } from './playwright.ts'

export const playwrightHandlers = ({ execute }: Playwright): Handlers<typeof playwright> => ({
  executePlaywright: ({ body, signal }) => execute(body.code, body.timeout_sec * 1000, signal),
})
