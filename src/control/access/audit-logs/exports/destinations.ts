// The rules of export destinations: who may manage them, and the effects of a change.
import { newId } from '../../../../base/ids.ts'
import { fault } from '../../../../http/fault.ts'
import type { Page, Principal } from '../../../../http/route.ts'
import type { Db } from '../../../../store/db.ts'
import { pageOf, type Paging } from '../../../../store/lists.ts'
import { assertOrganization } from '../../projects/projects.ts'
import type { CreateDestination, DestinationTest, ExportDestination, UpdateDestination } from './contract.ts'
import { folderOf } from './objects.ts'
import {
  activeSince,
  changeDestination,
  deleteDestination,
  findDestination,
  insertDestination,
  listDestinations,
  pausedSince,
  type DestinationRow,
} from './rows.ts'
import { NotExported, type Target } from './target.ts'

const KIND = 'export destination'
/** Each destination costs a row for every entry of the log until the entry is delivered. */
const MOST_DESTINATIONS = 20
/** Most tests at once: each uses a connection for up to 50 s. */
const MOST_TESTS = 8
const TESTS_RETRY_SECONDS = 5

/** All calls need a key of the whole organization. */
export class ExportDestinations {
  readonly #db: Db
  readonly #target: Target
  #tests = 0

  constructor(db: Db, target: Target) {
    this.#db = db
    this.#target = target
  }

  /** @throws 400, 403; 409 when there are too many */
  async create(by: Principal, { bucket, prefix, region, role_arn, kms_key_id }: CreateDestination): Promise<ExportDestination> {
    assertOrganization(by)
    this.#assertPossible(role_arn)
    const row = { id: newId(), bucket, prefix, region, role_arn, kms_key_id: kms_key_id || null, external_id: newId() }
    const made = await insertDestination(this.#db, row, MOST_DESTINATIONS)
    if (!made) throw fault.conflict(`there are ${MOST_DESTINATIONS} export destinations already, the limit; delete one`)
    return this.#present(made)
  }

  async list(by: Principal, paging: Paging): Promise<Page<ExportDestination>> {
    assertOrganization(by)
    return pageOf(await listDestinations(this.#db, paging), paging, (row) => this.#present(row))
  }

  /** @throws 403, 404 */
  async get(by: Principal, id: string): Promise<ExportDestination> {
    assertOrganization(by)
    return this.#present(await this.#find(id))
  }

  /** @throws 400, 403, 404; 409 when it was changed at the same time */
  async update(by: Principal, id: string, { status, kms_key_id: kmsKey, ...changes }: UpdateDestination): Promise<ExportDestination> {
    assertOrganization(by)
    const row = await this.#find(id)
    if (status === 'active' || changes.role_arn !== undefined) this.#assertPossible(changes.role_arn ?? row.role_arn)
    if ([status, kmsKey, ...Object.values(changes)].every((value) => value === undefined)) return this.#present(row)
    // Use this replica's clock, as for the times of its entries.
    const now = new Date()
    const isOther = status !== undefined && status !== row.status
    const changed = await changeDestination(this.#db, row, {
      ...changes,
      ...(kmsKey !== undefined && { kms_key_id: kmsKey || null }),
      ...(isOther && { status, active: status === 'active' ? activeSince(now) : pausedSince(now) }),
    })
    if (changed) return this.#present(changed)
    await this.#find(id)
    throw fault.conflict('the export destination was changed by somebody else meanwhile: read it again, and repeat the change if it is still right')
  }

  /** Entries that have not been exported yet will not be exported. @throws 403, 404 */
  async delete(by: Principal, id: string): Promise<void> {
    assertOrganization(by)
    if (!(await deleteDestination(this.#db, id))) throw fault.notFound(KIND, id)
  }

  /** @throws 403, 404, 429 */
  async test(by: Principal, id: string, signal: AbortSignal): Promise<DestinationTest> {
    assertOrganization(by)
    const row = await this.#find(id)
    if (this.#tests >= MOST_TESTS) throw fault.tooMany(`${MOST_TESTS} export destinations are being tested already, the limit`, TESTS_RETRY_SECONDS)
    this.#tests++
    try {
      const body = Buffer.from(`A test of the audit log's export destination ${id}. This object may be deleted.\n`)
      // Programs that read a folder of data skip names that begin with "_". The key is below the same folder as those of an export, as the role's policy needs.
      await this.#target.put(row, { key: `${folderOf(row)}/_test.txt`, type: 'text/plain', body }, signal, { isNew: true })
      return { stage: 'complete', success: true }
    } catch (error) {
      if (!(error instanceof NotExported)) throw error
      const { code, message } = error
      return { stage: code === 'assume_role_failed' ? 'assume_role' : 'put_object', success: false, error: { code, message } }
    } finally {
      this.#tests--
    }
  }

  async #find(id: string): Promise<DestinationRow> {
    const row = await findDestination(this.#db, id)
    if (!row) throw fault.notFound(KIND, id)
    return row
  }

  /** @throws 400 */
  #assertPossible(role: string): void {
    const wrong = this.#target.problem(role)
    if (wrong) throw fault.field(wrong.field, wrong.problem)
  }

  #present(row: DestinationRow): ExportDestination {
    return present(row, this.#target.principalArn)
  }
}

function present(row: DestinationRow, principalArn: string): ExportDestination {
  const { id, bucket, prefix, region, role_arn, external_id, consecutive_failures } = row
  const times = { last_error_at: row.last_error_at, last_success_at: row.last_success_at, next_attempt_at: row.next_attempt_at }
  return {
    id,
    type: 's3',
    format: 'jsonl.gz',
    bucket,
    prefix,
    region,
    role_arn,
    external_id,
    consecutive_failures,
    kernel_role_arn: principalArn,
    status: row.status as ExportDestination['status'],
    ...(row.kms_key_id !== null && { kms_key_id: row.kms_key_id }),
    ...(row.last_error !== null && { last_error: row.last_error }),
    ...(row.last_exported_cursor !== null && { last_exported_cursor: row.last_exported_cursor }),
    ...Object.fromEntries(Object.entries(times).flatMap(([name, time]) => (time ? [[name, time.toISOString()]] : []))),
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  }
}
