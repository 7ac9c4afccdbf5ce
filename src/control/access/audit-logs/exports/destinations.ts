// The rules of export destinations: who may manage them, and what a change means.
import { newId } from '../../../../base/ids.ts'
import { fault } from '../../../../http/fault.ts'
import { known, type Handlers } from '../../../../http/route.ts'
import type { Db } from '../../../../store/db.ts'
import { pageOf } from '../../../../store/lists.ts'
import { assertOrganization } from '../../projects/projects.ts'
import type { auditExports as contract, ExportDestination } from './contract.ts'
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
/** Each costs a row for every entry of the log until it has the entry. */
export const MOST_DESTINATIONS = 20
/** Most tests at once: each has a connection for up to 50 s. */
const MOST_TESTS = 8
const TESTS_RETRY_SECONDS = 5

/** Handlers of the contract: all need a key of the whole organization. */
export function auditExportHandlers(db: Db, target: Target): Handlers<typeof contract> {
  let tests = 0

  async function find(id: string): Promise<DestinationRow> {
    const row = await findDestination(db, id)
    if (!row) throw fault.notFound(KIND, id)
    return row
  }

  /** @throws 400 */
  function assertPossible(role: string): void {
    const wrong = target.problem(role)
    if (wrong) throw fault.field(wrong.field, wrong.problem)
  }

  function present(row: DestinationRow): ExportDestination {
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
      kernel_role_arn: target.principalArn,
      status: row.status as ExportDestination['status'],
      ...(row.kms_key_id !== null && { kms_key_id: row.kms_key_id }),
      ...(row.last_error !== null && { last_error: row.last_error }),
      ...(row.last_exported_cursor !== null && { last_exported_cursor: row.last_exported_cursor }),
      ...Object.fromEntries(Object.entries(times).flatMap(([name, time]) => (time ? [[name, time.toISOString()]] : []))),
      created_at: row.created_at.toISOString(),
      updated_at: row.updated_at.toISOString(),
    }
  }

  return {
    async createAuditLogExportDestination({ principal, body: { bucket, prefix, region, role_arn, kms_key_id } }) {
      assertOrganization(known(principal))
      assertPossible(role_arn)
      const row = { id: newId(), bucket, prefix, region, role_arn, kms_key_id: kms_key_id || null, external_id: newId() }
      const made = await insertDestination(db, row, MOST_DESTINATIONS)
      if (!made) throw fault.conflict(`there are ${MOST_DESTINATIONS} export destinations already, the limit; delete one`)
      return present(made)
    },

    async listAuditLogExportDestinations({ principal, query }) {
      assertOrganization(known(principal))
      return pageOf(await listDestinations(db, query), query, present)
    },

    async getAuditLogExportDestination({ principal, params: { id } }) {
      assertOrganization(known(principal))
      return present(await find(id))
    },

    async updateAuditLogExportDestination({ principal, params: { id }, body: { status, kms_key_id: kmsKey, ...changes } }) {
      assertOrganization(known(principal))
      const row = await find(id)
      if (status === 'active' || changes.role_arn !== undefined) assertPossible(changes.role_arn ?? row.role_arn)
      if ([status, kmsKey, ...Object.values(changes)].every((value) => value === undefined)) return present(row)
      // By this clock, as the times of the entries of this replica.
      const now = new Date()
      const isOther = status !== undefined && status !== row.status
      const changed = await changeDestination(db, row, {
        ...changes,
        ...(kmsKey !== undefined && { kms_key_id: kmsKey || null }),
        ...(isOther && { status, active: status === 'active' ? activeSince(now) : pausedSince(now) }),
      })
      if (changed) return present(changed)
      await find(id)
      throw fault.conflict('the export destination was changed by somebody else meanwhile: read it again, and repeat the change if it is still right')
    },

    /** What was not exported is not exported any more. */
    async deleteAuditLogExportDestination({ principal, params: { id } }) {
      assertOrganization(known(principal))
      if (!(await deleteDestination(db, id))) throw fault.notFound(KIND, id)
    },

    async testAuditLogExportDestination({ principal, params: { id }, signal }) {
      assertOrganization(known(principal))
      const row = await find(id)
      if (tests >= MOST_TESTS) throw fault.tooMany(`${MOST_TESTS} export destinations are being tested already, the limit`, TESTS_RETRY_SECONDS)
      tests++
      try {
        const body = Buffer.from(`A test of the audit log's export destination ${id}. This object may be deleted.\n`)
        // Programs that read a folder of data leave out names that begin with "_". It has a key like the objects of an export, for the role's policy.
        await target.put(row, { key: `${folderOf(row)}/_test.txt`, type: 'text/plain', body }, signal, { isNew: true })
        return { stage: 'complete', success: true }
      } catch (error) {
        if (!(error instanceof NotExported)) throw error
        const { code, message } = error
        return { stage: code === 'assume_role_failed' ? 'assume_role' : 'put_object', success: false, error: { code, message } }
      } finally {
        tests--
      }
    },
  }
}
