// The agent's HTTP server: which tools it has and how they are reached.
import { timingSafeEqual } from 'node:crypto'
import type { Server } from 'node:http'
import type { Log } from '../base/log.ts'
import { fault } from '../http/fault.ts'
import { mount } from '../http/mount.ts'
import { makeServer, sealPaths } from '../http/server.ts'
import { mountUpgrades } from '../http/upgrade.ts'
import type { Browser } from './chromium/keeper.ts'
import { computer } from './computer/contract.ts'
import { computerHandlers } from './computer/handlers.ts'
import type { Hands } from './computer/hands.ts'
import type { Screen } from './display/screen.ts'
import { session } from './session/contract.ts'
import { sessionHandlers } from './session/handlers.ts'
import { sockets } from './session/sockets.ts'

/** What the tools work with: real in an instance, pretended by the fake driver. */
export interface Workplace {
  keeper: Browser
  screen: Screen
  hands: Hands
  /** Settles when the browser is up for the first time. */
  ready: Promise<void>
}

/** Makes the agent's server, not yet listening. A new tool is one line here and one in the control plane's list of what is public. */
export async function serveAgent({ keeper, screen, hands, ready }: Workplace, token: string | undefined, log: Log): Promise<Server> {
  const context = makeServer({
    log,
    authenticate: async (given) => {
      if (token !== undefined && !same(given ?? '', token)) throw fault.unauthorized('the token is missing or wrong')
    },
  })
  mount(context, session, sessionHandlers(keeper, screen, ready, log))
  mount(context, computer, computerHandlers(screen, hands))
  sealPaths(context)
  mountUpgrades(context.app.server, log, sockets(keeper, log))
  await context.app.ready()
  return context.app.server
}

const same = (a: string, b: string): boolean => a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b))
