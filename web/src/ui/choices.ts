// The items of a list, and the projects, as choices of a form.
import type { ItemOf, ListId } from '../api/contracts.ts'
import { usePage } from '../api/queries.ts'
import { useRights } from '../api/rights.ts'
import { useMe } from '../api/sign-in.ts'

/** The most choices that a form offers; a longer list has its own page. */
const MAX_CHOICES = 100

type Choice = readonly [value: string, text: string]

/** `none` is the text of the first choice, which selects nothing. */
export function useChoices<K extends ListId>(id: K, none: string, choiceOf: (item: ItemOf<K>) => Choice): Choice[] {
  const { data } = usePage(id, { query: { limit: MAX_CHOICES } } as never)
  return [['', none], ...(data?.items ?? []).map(choiceOf)]
}

/** The projects in which the person may give rights. "All projects" comes first for a person who owns them all. */
export function useProjectChoices(): Choice[] {
  const may = useRights()
  const projects = useMe().data?.projects ?? []
  return [...(may.ownAll ? ([['', 'All projects']] as const) : []), ...projects.map(({ id, name }) => [id, name] as const)]
}
