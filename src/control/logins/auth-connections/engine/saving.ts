// The steps after a verified login: the profile is saved, typed values are kept, then the flow is SUCCESS. Each step may be repeated after a kill.
import { newId } from '../../../../base/ids.ts'
import { BrowserGone } from './browser.ts'
import type { Memory } from './memory.ts'
import type { Scrubber } from './scrub.ts'
import { canonicalKey, type SecretResolver } from './secrets.ts'
import { FlowFailure, NotOurs, type Flow, type Tools } from './work.ts'

interface Saving {
  flow: Flow
  browserId: string
  memory: Memory
  secrets: SecretResolver
  remember: () => Promise<void>
  tools: Tools
  signal: AbortSignal
}

/**
 * Returns the address after the login in a form that may be shown. If it contains the user's name, the whole address is stored encrypted: some sites show the
 * user's page only there. If it contains a password, it would log in again at each check, so it is not stored.
 */
export async function keepAddress(url: string, { id }: Flow, scrubber: Scrubber, { flows }: Pick<Tools, 'flows'>): Promise<string> {
  const shown = scrubber.address(url)
  if (shown !== url && !scrubber.holdsSecret(url) && !(await flows.keepAddress(id, url))) throw new NotOurs('the flow has ended')
  return shown
}

const NOT_SAVED = 'the login succeeded, and its profile could not be saved'

export async function saveAndFinish(saving: Saving): Promise<void> {
  const { flow, memory, remember, tools, browserId, signal } = saving
  const success = memory.success!
  if (!success.isSaved) {
    await saveProfile(saving)
    success.isSaved = true
    await remember()
  }
  await keepTyped(saving)
  const { postLoginUrl, learned, credentialId } = success
  // Usually the browser has ended by now. This is for a browser for which only the saving was left.
  await tools.browsers.finish(browserId, { save: false }, signal)
  if (!(await tools.flows.finish(flow.id, { state: 'SUCCESS', postLoginUrl, learned, credentialId }))) throw new NotOurs('the flow has ended')
}

async function saveProfile({ browserId, tools, signal, flow }: Saving): Promise<void> {
  try {
    // If the browser has ended, it may have saved its profile before a restart: finish() checks that.
    const browser = await tools.browsers.find(browserId)
    await browser?.end(signal).catch((error: unknown) => {
      if (!(error instanceof BrowserGone)) throw error
    })
    await tools.browsers.finish(browserId, { save: true }, signal)
  } catch (error) {
    signal.throwIfAborted()
    tools.log.warn({ flow: flow.id, error: error instanceof Error ? error.name : 'unknown' }, NOT_SAVED)
    throw new FlowFailure('browser_error', NOT_SAVED)
  }
}

/** Merges typed values into the linked credential, or creates one. Not for a provider, which has its own values. */
async function keepTyped({ flow, memory, secrets, remember, tools }: Saving): Promise<void> {
  const success = memory.success!
  const [used, refused] = [memory.keys, memory.rejected].map((keys) => new Set(keys.map(canonicalKey)))
  const values = Object.fromEntries(Object.entries(secrets.typed()).filter(([key]) => used!.has(key) && !refused!.has(key)))
  if (success.credentialId !== undefined || Object.keys(values).length === 0) return
  // Read the connection again: callers may have changed it while the login ran.
  const connection = await tools.flows.connectionOf(flow)
  if (!connection) throw new NotOurs('its connection is gone')
  const { project_id: project, domain, credential_id: linked } = connection
  // If the credential is another one than at the start of the login, it may belong to another account.
  const isLinkedAnew = connection.provider_id !== null || (linked !== null && linked !== memory.credential)
  if (!connection.save_credentials || isLinkedAnew) return
  try {
    const name = await tools.credentialName(connection)
    // Choose the id first: after a kill in the middle, the created credential is found by it.
    success.newCredentialId ??= newId()
    await remember()
    success.credentialId = await tools.credentials.keep(project, { into: linked ?? undefined, id: success.newCredentialId, name, domain, values })
    await remember()
  } catch (error) {
    if (error instanceof NotOurs) throw error
    // The profile is logged in anyway: the next login asks for the values again.
    tools.log.warn({ flow: flow.id, error: error instanceof Error ? error.name : 'unknown' }, 'what was typed in a login could not be kept')
  }
}
