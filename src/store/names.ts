// The comparison of names: in lists, and of projects' names everywhere. The rules name ICU explicitly, because the collation of the embedded database handles
// case for ASCII only.
import { sql, type RawBuilder, type SqlBool } from 'kysely'
import { isId } from '../base/ids.ts'

const lower = (text: RawBuilder<string>): RawBuilder<string> => sql`lower(${text} collate "und-x-icu")`
/** Without accents: letters and marks are separated (NFD), and the marks (U+0300 to U+036F) are removed. */
const plain = (text: RawBuilder<string>): RawBuilder<string> => lower(sql`regexp_replace(normalize(${text}, NFKD), '[\u0300-\u036f]+', '', 'g')`)

/** A path contains a name or an id: no name has the form of an id. */
export const byIdOrName = (idOrName: string): { id: string; name?: undefined } | { id?: undefined; name: string } =>
  isId(idOrName) ? { id: idOrName } : { name: idOrName }

/** Whether `column` is that name, ignoring case. Ordered by bytes, as the index projects_name is. */
export const isCalled = (column: string, name: string): RawBuilder<SqlBool> =>
  sql`${lower(sql.ref(column))} collate "C" = ${lower(sql`${name}::text`)} collate "C"`

/** Whether `column` equals that name, ignoring case and accents. */
export const isNamed = (column: string, name: string): RawBuilder<SqlBool> => sql`${plain(sql.ref(column))} = ${plain(sql`${name}::text`)}`

/** Whether `column` contains `part`, ignoring case. */
export const holds = (column: string, part: string): RawBuilder<SqlBool> => sql`strpos(${lower(sql.ref(column))}, ${lower(sql`${part}::text`)}) > 0`

/** The query of a list of things whose table is called `table`: a whole name; a part of one, or a whole id. An absent filter matches all. */
export const isAskedFor = (table: string, { name, query }: { name?: string | undefined; query?: string | undefined }): RawBuilder<SqlBool> => {
  const [id, column] = [`${table}.id`, `${table}.name`]
  const wanted = [...(name ? [isNamed(column, name)] : []), ...(query ? [sql<SqlBool>`(${sql.ref(id)} = ${query} or ${holds(column, query)})`] : [])]
  return wanted.length > 0 ? sql.join(wanted, sql` and `) : sql`true`
}
