// Turns errors of the database about a write into errors for callers.
import { fault } from '../../http/fault.ts'
import { isDuplicate, isProjectGone } from '../../store/db.ts'

/** A table with unique names: the constraint is `<table>_name`; `one` is its name in messages, such as "a profile". */
export interface Named {
  table: string
  one: string
}

/** Writes a row that has a name. @throws 409 when another one has this name already; 404 when the project has been deleted */
export const written = <T>(work: Promise<T>, { table, one }: Named, name: string | null | undefined, project?: string): Promise<T> =>
  work.catch((error: unknown) => {
    if (project !== undefined && isProjectGone(error)) throw fault.projectNotFound(project)
    throw isDuplicate(error, `${table}_name`) ? fault.conflict(`there is ${one} named "${name}" already`) : error
  })
