// Managing API keys on the machine of the service. The rules for callers apply here, too: a person who may read the data directory acts as the service's own
// key.
import type * as z from 'zod'
import { silentLog } from '../../base/log.ts'
import { ConfigError } from '../../base/setting.ts'
import { checked } from '../../http/fault.ts'
import type { Principal } from '../../http/route.ts'
import type { Db } from '../../store/db.ts'
import { isCalled } from '../../store/names.ts'
import { ApiKeys } from './api-keys/api-keys.ts'
import { apiKeys, type ApiKey, type CreatedApiKey } from './api-keys/contract.ts'
import { Rights } from './rights.ts'
import { DEFAULT_PROJECT } from './projects/resolve.ts'

const PAGE = 100

/** Commands for a person on the machine. @throws when no service has used the database */
export async function keyCommands(db: Db, scope: string) {
  const own = db.selectFrom('api_keys').select('id').where('scope', '=', scope).where('setting', 'is not', null).where('deleted_at', 'is', null)
  const key = await own.orderBy('created_at', 'desc').limit(1).executeTakeFirst()
  if (!key) throw new ConfigError('COB_SCOPE', `no service with the scope ${scope} has used this database; start it once`)
  const principal: Principal = { by: { kind: 'key', id: key.id, project: undefined, deployment: undefined }, project: DEFAULT_PROJECT }
  const keys = new ApiKeys(db, new Rights(db, silentLog))
  return {
    /** All keys except those of apps, newest first. */
    async list(): Promise<ApiKey[]> {
      const all: ApiKey[] = []
      for (let offset: number | undefined = 0; offset !== undefined;) {
        const query: z.output<typeof apiKeys.listApiKeys.query> = apiKeys.listApiKeys.query.parse({ limit: String(PAGE), offset: String(offset) })
        const page = await keys.list(principal, query)
        all.push(...page.items)
        offset = page.nextOffset
      }
      return all
    },
    async create(name: string, { project, days }: { project: string | undefined; days: number | undefined }): Promise<CreatedApiKey> {
      const projectId = project === undefined ? undefined : await projectOf(db, project)
      const body = { name, ...(projectId !== undefined && { project_id: projectId }), ...(days !== undefined && { days_to_expire: days }) }
      return keys.create(principal, taken(apiKeys.createApiKey.body, body))
    },
    /** Gives a new key with the name and project of an old one, which expires after `oldDays`. */
    async rotate(id: string, { days, oldDays }: { days: number | undefined; oldDays: number | undefined }): Promise<CreatedApiKey> {
      const body = { ...(days !== undefined && { days_to_expire: days }), ...(oldDays !== undefined && { expire_in_days: oldDays }) }
      return keys.rotate(principal, id, taken(apiKeys.rotateApiKey.body, body))
    },
    remove: (id: string): Promise<void> => keys.delete(principal, id),
  }
}

/** The names of fields as options of the command. */
const OPTIONS: Record<string, string> = { days_to_expire: '--expires-days', expire_in_days: '--old-expires-days' }

/** @throws with the first field that is wrong */
function taken<T extends z.ZodType>(schema: T, given: unknown): z.output<T> {
  const { data, problems } = checked(schema, given)
  const [first] = problems
  if (first) throw new Error(`${OPTIONS[first.field] ?? first.field}: ${first.problem}`)
  return data as z.output<T>
}

/** @throws when there is no active project with that id or name */
async function projectOf(db: Db, idOrName: string): Promise<string> {
  const active = db.selectFrom('projects').select('id').where('status', '=', 'active')
  const found = await active
    .where((eb) => eb.or([eb('id', '=', idOrName), isCalled('name', idOrName)]))
    .orderBy((eb) => eb('id', '=', idOrName), 'desc')
    .limit(1)
    .executeTakeFirst()
  if (!found) throw new Error(`--project: there is no active project "${idOrName}"`)
  return found.id
}
