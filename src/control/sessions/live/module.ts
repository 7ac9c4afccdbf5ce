// The live view: a page on which people watch a session and control it.
import { secretsBelow } from '../../access/audit-logs/module.ts'
import { defineModule, question } from '../../module.ts'
import { dashboard } from '../../service/dashboard/module.ts'
import { livePath } from '../browsers/hooks.ts'
import { browsers } from '../browsers/module.ts'
import { watched } from '../browsers/watched.ts'
import { LIVE_PATH, liveLinks, type LiveLinks } from './links.ts'
import { makeLiveViews } from './routes.ts'

/** For a login: a signal that aborts when no person may act in its browser any more; undefined when nobody may act now. */
export const whileActing = question<(flow: string, signal: AbortSignal) => Promise<AbortSignal | undefined>>('who may act in the browser of a login')

export const live = defineModule<LiveLinks>({
  name: 'live',
  open(house) {
    const links = liveLinks(house.keys.root.secret)
    const { browsers: rules, sockets } = house.of(browsers)
    const acting = house.ask(whileActing)
    const views = makeLiveViews({
      findSession: (id) => house.of(watched).findSession(undefined, id),
      links,
      sockets,
      reach: (session) => rules.reach(undefined, session, { isForLogins: true }),
      whileActing: (flow, signal) => acting()(flow, signal),
      pages: house.of(dashboard),
      log: house.log,
    })
    house.fill(livePath, links.path)
    house.fill(secretsBelow, LIVE_PATH)
    house.serve(({ app, known }) => views.mount(app, known))
    house.upgrade(views.handlers)
    return links
  },
})
