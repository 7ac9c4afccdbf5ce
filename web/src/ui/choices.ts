// The things of a list as the choices of a form.
import type { ItemOf, ListId } from '../api/contracts.ts'
import { usePage } from '../api/queries.ts'

/** A form offers so many; a list with more has a page of its own. */
const MAX_CHOICES = 100

type Choice = readonly [value: string, text: string]

/** `none`: the first choice, which stands for nothing. */
export function useChoices<K extends ListId>(id: K, none: string, choiceOf: (item: ItemOf<K>) => Choice): Choice[] {
  const { data } = usePage(id, { query: { limit: MAX_CHOICES } } as never)
  return [['', none], ...(data?.items ?? []).map(choiceOf)]
}
