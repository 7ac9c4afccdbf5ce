// Runs the login worker at a fake site.
import { expect } from 'vitest'
import { workOn } from '../../src/control/logins/auth-connections/engine/worker.ts'
import { button, input, link, password } from './page-models.ts'
import { SECRETS, type Parts, type Site, type SitePage, type World } from './login-site.ts'

export const { username, password: right, wrong, code } = SECRETS
export const STORED = { username, password: right }
export const HOME: SitePage = {
  parts: [link('Sign out', '/logout'), link('Settings', '/settings'), link('Reports', '/reports')],
  more: { headings: ['Welcome back'], title: 'Dashboard' },
}
export const loginForm = (more: SitePage['more'] = {}, extra: Parts = []): Pick<SitePage, 'parts' | 'more'> => ({
  parts: [input('Username', { name: 'username' }), password('Password', { name: 'password' }), button('Sign in'), ...extra],
  more: { title: 'Sign in', headings: ['Sign in'], ...more },
})
export const isError = { alerts: [{ text: 'Wrong username or password.', by: 'role' as const }] }

/** A login form with both fields. After it comes `after`, or the start page of a logged-in user. */
export const plain =
  (after = '/home', other?: (path: string, state: Parameters<Site>[1]) => SitePage | undefined): Site =>
  ({ pathname }, state) => {
    const special = other?.(pathname, state)
    if (special) return special
    if (state.user !== '') return HOME
    return {
      ...loginForm(state.step['wrong'] ? isError : {}),
      press: (_, values) => {
        if (values['Username'] !== username || values['Password'] !== right) {
          state.step['wrong'] = true
          return '/login'
        }
        if (after === '/home') state.user = username
        return after
      },
    }
  }
export const enter = (state: Parameters<Site>[1], to = '/home') => {
  state.user = username
  return to
}

export async function run(world: World): Promise<World> {
  await workOn((await world.flows.claimNext())!, world.tools(), new AbortController().signal)
  expect(world.row.state).not.toBe('IN_PROGRESS')
  expect(world.openBrowsers()).toBe(0)
  for (const secret of Object.values(SECRETS)) expect(world.plainText()).not.toContain(secret)
  return world
}
export const answering = (...values: Record<string, string>[]): World['person'] => {
  let at = 0
  return ({ fields }) => {
    const next = values[Math.min(at++, values.length - 1)]!
    return { values: Object.fromEntries(fields.map(({ id, key }) => [id, next[key] ?? ''])) }
  }
}
export const endOf = (world: World) => (world.row.end?.state === 'FAILED' ? world.row.end.errorCode : world.row.end?.state)
