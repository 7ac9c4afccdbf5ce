// The rules of logins for callers: start one, answer its questions, follow it, list earlier ones. Changes of flows: flows.ts; their work: the engine.
import { fault } from '../../../http/fault.ts'
import type { Page, Principal } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import { pageOf, type Paging } from '../../../store/lists.ts'
import type { BeginLogin, FlowEvent, LoginBegun, Submission, TimelineItem } from './contract.ts'
import type { CredentialReferences } from './credential-references.ts'
import { followFlow } from './follow.ts'
import { lastLogins, listFlows, type FlowRow, type FlowType } from './flow-rows.ts'
import type { Flows } from './flows.ts'
import { hostedPath } from './hosted-page.ts'
import { timelineItem } from './present.ts'
import { findConnection, type ConnectionWithProfile } from './rows.ts'
import { answerTo } from './submit.ts'
import type { Views } from './views.ts'
import { askedOf, isOfProject, resolveBrowser, type BrowserNames } from './wanted-browser.ts'

export interface LoginsSettings {
  db: Db
  scope: string
  flows: Flows
  references: CredentialReferences
  names: BrowserNames
  views: Views
}

export class Logins {
  readonly #settings: LoginsSettings

  constructor(settings: LoginsSettings) {
    this.#settings = settings
  }

  /** @throws 400, 404; 409 while another one is in progress */
  async begin(by: Principal, id: string, { record_session: record, skill_mode: _, ...given }: BeginLogin, origin: string): Promise<LoginBegun> {
    const { flows, names, references } = this.#settings
    const row = await this.#find(by.project, id)
    const resolved = await resolveBrowser(names, by.project, given)
    const isReauth = await references.canReauth(row)
    const { flow, code } = await flows.begin(row, isReauth ? 'reauth' : 'login', askedOf(resolved, record, isOfProject(by)))
    return {
      id,
      flow_type: isReauth ? 'REAUTH' : 'LOGIN',
      flow_expires_at: flow.expires_at.toISOString(),
      hosted_url: origin + hostedPath(id, code),
      handoff_code: code,
    }
  }

  /** @throws 400, 404; 409 when the question is over or has been answered */
  async submit(project: string, id: string, submission: Submission): Promise<{ accepted: boolean }> {
    await this.#find(project, id)
    const flow = await this.#last(id)
    const isLive = flow?.state === 'IN_PROGRESS'
    if (isLive && flow.answer !== null) throw fault.conflict('the last answer is still being worked on')
    const isAsking = isLive && flow.pause !== null && (flow.step === 'AWAITING_INPUT' || flow.step === 'AWAITING_EXTERNAL_ACTION')
    const answer = answerTo(isAsking ? flow.pause! : undefined, submission)
    if (!(await this.#settings.flows.answer(flow!.id, answer))) throw fault.conflict('the question is over, or has been answered just now')
    return { accepted: true }
  }

  /** The events of the last login. @throws 404 */
  async follow(by: Principal, id: string, origin: string, signal: AbortSignal): Promise<AsyncIterable<FlowEvent>> {
    const { db, scope, flows, views } = this.#settings
    await this.#find(by.project, id)
    const read = () => findConnection(db, { scope, project: by.project }, id)
    const linksOf = (flow: FlowRow) => views.links(by, flow, origin)
    return followFlow({ read, last: await this.#last(id), flows, linksOf }, signal)
  }

  /** @throws 404 */
  async timeline(project: string, id: string, filter: Paging & { type?: FlowType | undefined }): Promise<Page<TimelineItem>> {
    await this.#find(project, id)
    return pageOf(await listFlows(this.#settings.db, id, filter), filter, timelineItem)
  }

  async #find(project: string, id: string): Promise<ConnectionWithProfile> {
    const { db, scope } = this.#settings
    const row = await findConnection(db, { scope, project }, id)
    if (!row) throw fault.notFound('auth connection', id)
    return row
  }

  async #last(id: string): Promise<FlowRow | undefined> {
    return (await lastLogins(this.#settings.db, [id])).get(id)
  }
}
