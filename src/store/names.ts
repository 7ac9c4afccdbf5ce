// How lists compare names. Written out with ICU's rules, because the embedded database's own collation knows case for ASCII only.
import { sql, type RawBuilder, type SqlBool } from 'kysely'

const lower = (text: RawBuilder<string>): RawBuilder<string> => sql`lower(${text} collate "und-x-icu")`
/** Without accents: letters and marks taken apart, the marks (U+0300 to U+036F) left out. */
const plain = (text: RawBuilder<string>): RawBuilder<string> => lower(sql`regexp_replace(normalize(${text}, NFKD), '[\u0300-\u036f]+', '', 'g')`)

/** Whether `column` holds that name. Case and accents do not count. */
export const isNamed = (column: string, name: string): RawBuilder<SqlBool> => sql`${plain(sql.ref(column))} = ${plain(sql`${name}::text`)}`

/** Whether `column` holds `part` somewhere. Case does not count. */
export const holds = (column: string, part: string): RawBuilder<SqlBool> => sql`strpos(${lower(sql.ref(column))}, ${lower(sql`${part}::text`)}) > 0`
