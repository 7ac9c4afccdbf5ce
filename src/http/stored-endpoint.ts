// The address of an agent, as rows store it: any service that has the secret key can reach it. The credential of an agent that is reached by TCP is sealed.
import type { Sealer } from '../base/sealed.ts'
import type { Endpoint } from './endpoint.ts'

/** The content of the column `endpoint`: an endpoint without its credential, and `sealed`, the sealed credential in base64. */
export type StoredEndpoint = Endpoint & { sealed?: string }

export interface Endpoints {
  /** The endpoint of a session's agent, for its row. The missing features of an older agent are not stored: they depend on the calling service. */
  store(endpoint: Endpoint, browserId: string): StoredEndpoint
  /** @throws when it was sealed for another session or with another key */
  open(stored: StoredEndpoint, browserId: string): Endpoint
}

/** `sealer` has the purpose `endpoints`. */
export function storedEndpoints(sealer: Sealer): Endpoints {
  return {
    store({ older: _, ...endpoint }, browserId) {
      if (!('credential' in endpoint) || endpoint.credential === undefined) return endpoint
      const { credential, ...open } = endpoint
      return { ...open, sealed: sealer.seal(credential, browserId).toString('base64') }
    },
    open({ sealed, ...endpoint }, browserId) {
      return sealed === undefined ? endpoint : { ...endpoint, credential: sealer.open(Buffer.from(sealed, 'base64'), browserId) }
    },
  }
}
