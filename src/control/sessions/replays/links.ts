// Links to replays. The token in a link is signed, names one replay, and says how much of its events the link shows.
import { makeSigner, type Signer } from '../../../base/signed.ts'
import { EventsShown } from '../telemetry/shown/contract.ts'

/** What a link shows that says nothing of it: nobody has asked for more. */
const UNSAID: EventsShown = 'brief'

/** Signs the tokens of player pages. Each opens one replay, for as long as that replay exists. */
export const replaySigner = (secretKey: Buffer): Signer => makeSigner(secretKey, 'cob-replay')

/** The address of a replay's page. Always the same for the same choice. */
export async function viewUrl(tokens: Signer, origin: string, id: string, events: EventsShown = UNSAID): Promise<string> {
  return `${origin}/replays/${id}/view?jwt=${await tokens.sign(id, events === UNSAID ? {} : { events })}`
}

/** What a token opens; undefined for any that {@link replaySigner} has not made. */
export async function openedBy(tokens: Signer, token: unknown): Promise<{ id: string; events: EventsShown } | undefined> {
  const { sub, events } = (await tokens.read(token)) ?? {}
  return sub === undefined ? undefined : { id: sub, events: events === undefined ? UNSAID : (EventsShown.safeParse(events).data ?? 'none') }
}
