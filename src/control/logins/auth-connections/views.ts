// Connections as callers see them: each with its last login, and for callers who may use it, with the addresses of a login in progress.
import { includes, roleOf, type Principal } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import { mayAct } from './acting.ts'
import type { Connection } from './contract.ts'
import type { CredentialReferences } from './credential-references.ts'
import { lastLogins, type FlowRow } from './flow-rows.ts'
import { hostedPath } from './hosted-page.ts'
import { present, type Links } from './present.ts'
import type { ConnectionWithProfile } from './rows.ts'

export interface ViewsSettings {
  db: Db
  references: CredentialReferences
  codeOf: (flowId: string) => string
  /**
   * An address where a person sees the browser of a login. With `act`, they may act in it while the login waits for that. Undefined when the login has no
   * browser.
   */
  liveViewUrl: (browserId: string, origin: string, access: 'act' | 'watch') => Promise<string | undefined>
}

export class Views {
  readonly #settings: ViewsSettings

  constructor(settings: ViewsSettings) {
    this.#settings = settings
  }

  /** Shows the result of `read`. One snapshot: a login that ends meanwhile must not be shown as a success beside a connection that is not logged in. */
  async of(by: Principal, origin: string, read: (tx: Db) => Promise<ConnectionWithProfile[]>): Promise<Connection[]> {
    const snapshot = this.#settings.db.transaction().setIsolationLevel('repeatable read')
    const { rows, last } = await snapshot.execute(async (tx) => {
      const found = await read(tx)
      const ids = found.map(({ id }) => id)
      return { rows: found, last: await lastLogins(tx, ids) }
    })
    const referred = await this.#settings.references.of(rows)
    return Promise.all(
      rows.map(async (row) => {
        const flow = last.get(row.id)
        return present(row, flow, referred(row), await this.links(by, flow, origin))
      }),
    )
  }

  /** The addresses of a login. Their holder can continue the login, so callers who may only read get none. */
  async links(by: Principal, flow: FlowRow | undefined, origin: string): Promise<Links> {
    if (flow?.state !== 'IN_PROGRESS' || !includes(roleOf(by), 'use')) return { hostedUrl: undefined, liveViewUrl: undefined }
    const { codeOf, liveViewUrl } = this.#settings
    return {
      // A login that the service started by itself has no page.
      hostedUrl: flow.code_hash === null ? undefined : origin + hostedPath(flow.connection_id, codeOf(flow.id)),
      liveViewUrl: flow.browser_id === null ? undefined : await liveViewUrl(flow.browser_id, origin, mayAct(flow) ? 'act' : 'watch'),
    }
  }
}
