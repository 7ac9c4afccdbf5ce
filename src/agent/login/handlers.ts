// The login contract, answered by the login in the browser.
import type { Handlers } from '../../http/route.ts'
import type { login as contract } from './contract.ts'
import type { Login } from './login.ts'

export const loginHandlers = (login: Login): Handlers<typeof contract> => ({
  openLoginPage: ({ body: { url, new_tab }, signal }) => login.open(url, new_tab, signal),
  readLoginPage: ({ signal }) => login.read(signal),
  actOnLoginPage: ({ body: { actions, hosts }, signal }) => login.act(actions, hosts, signal),
  settleLoginPage: ({ body: { limit_ms }, signal }) => login.settle(limit_ms, signal),
  readLoginMarks: ({ body: { hosts }, signal }) => login.marks(hosts, signal),
  endLogin: ({ signal }) => login.end(signal),
})
