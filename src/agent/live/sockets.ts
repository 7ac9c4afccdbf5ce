// The WebSockets of the live view: one for viewers that control and one for viewers that only watch. The control plane chooses by the token.
import { WebSocketServer } from 'ws'
import type { Log } from '../../base/log.ts'
import type { UpgradeHandler } from '../../http/upgrade.ts'
import { LIVE_SOCKETS } from './contract.ts'
import type { Live } from './view.ts'

/** The longest message is a pasted text in JSON. A viewer that only watches sends nothing long. */
const MAX_FROM_ACTOR = 64 * 1024 * 1024
const MAX_FROM_ONLOOKER = 64 * 1024

export function liveSockets(live: Live, log: Log): Record<(typeof LIVE_SOCKETS)[keyof typeof LIVE_SOCKETS], UpgradeHandler> {
  const handler = (control: boolean): UpgradeHandler => {
    const server = new WebSocketServer({ noServer: true, maxPayload: control ? MAX_FROM_ACTOR : MAX_FROM_ONLOOKER, perMessageDeflate: false })
    return async ({ request, socket, head }) =>
      server.handleUpgrade(request, socket, head, (client) => {
        // From the start: a viewer that is refused may still send something invalid, and an error without a listener is an uncaught one.
        client.on('error', (err) => log.debug({ err }, "a viewer's WebSocket broke"))
        live.join(client, control).catch((err: unknown) => {
          log.warn({ err }, 'a viewer could not join')
          client.close(1011)
        })
      })
  }
  return { [LIVE_SOCKETS.control]: handler(true), [LIVE_SOCKETS.watch]: handler(false) }
}
