// Lists in pages: the query of a caller, the rows of a page, and the page. One row more than the page has is read, which shows whether there is another page.
import { sql, type SelectQueryBuilder } from 'kysely'

export interface Paging {
  offset: number
  limit: number
}

/** The query of a list of named things; see {@link isAskedFor}. */
export interface Asked extends Paging {
  name?: string | undefined
  query?: string | undefined
}

/** One page of the rows of `table`, newest first. */
export const newest =
  (table: string, { offset, limit }: Paging) =>
  <DB, TB extends keyof DB, O>(select: SelectQueryBuilder<DB, TB, O>): SelectQueryBuilder<DB, TB, O> =>
    select
      .orderBy(sql.ref(`${table}.created_at`), 'desc')
      .orderBy(sql.ref(`${table}.id`))
      .offset(offset)
      .limit(limit + 1)

/** The page of these rows, each in its `shown` form. */
export const pageOf = <R, T>(rows: readonly R[], { offset, limit }: Paging, shown: (row: R) => T): { items: T[]; nextOffset: number | undefined } => ({
  items: rows.slice(0, limit).map(shown),
  nextOffset: rows.length > limit ? offset + limit : undefined,
})
