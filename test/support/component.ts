// Makes the requests of the official React component for logins (`@onkernel/managed-auth-react`) from a page of another origin. No registry has the package.
import type { Page } from 'playwright-core'
import type { Connection } from '../../src/control/logins/auth-connections/contract.ts'

/** The component's polling interval. */
const POLL_MS = 2_000

/** Chooses the component's answer to a state. With undefined it waits. */
export type Choose = (state: Connection) => Record<string, unknown> | undefined

export interface Driven {
  flowStatus: string | null
  /** The requests in order: method and path. */
  asked: string[]
}

/**
 * Drives a login from `page`, which may have any origin: exchanges the code, polls the state, and sends what `choose` returns, until the flow has ended. Its bodies
 * always have `fields` and never `interaction_id`.
 */
export async function driveAsComponent(page: Page, service: { url: string; connectionId: string; code: string }, choose: Choose): Promise<Driven> {
  const asked: string[] = []
  const send = async (method: string, path: string, headers: Record<string, string>, body?: unknown): Promise<{ status: number; body: unknown }> => {
    asked.push(`${method} ${path}`)
    // The request runs in the page, so the browser applies CORS.
    return page.evaluate(
      async ([url, options]) => {
        const response = await fetch(url, options)
        return { status: response.status, body: (await response.json()) as unknown }
      },
      [
        `${service.url}/auth/connections/${service.connectionId}${path}`,
        { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) },
      ] as const,
    )
  }
  const json = { 'Content-Type': 'application/json' }
  const exchanged = await send('POST', '/exchange', json, { code: service.code })
  const { jwt } = exchanged.body as { jwt?: string }
  if (!jwt) throw new Error(`the exchange was answered ${exchanged.status}`)
  const authorization = { Authorization: `Bearer ${jwt}` }
  for (;;) {
    const { status, body } = await send('GET', '', authorization)
    if (status !== 200) throw new Error(`the state was answered ${status}`)
    const state = body as Connection
    if (state.flow_status !== 'IN_PROGRESS') return { flowStatus: state.flow_status, asked }
    const answer = state.flow_step === 'AWAITING_INPUT' ? choose(state) : undefined
    if (answer) {
      const taken = await send('POST', '/submit', { ...json, ...authorization }, { fields: {}, ...answer })
      if (taken.status >= 300) throw new Error(`an answer was refused with ${taken.status}: ${JSON.stringify(taken.body)}`)
    }
    await page.waitForTimeout(POLL_MS)
  }
}
