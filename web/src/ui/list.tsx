// A list of the API as a page. The address contains its filters and its position, so that it can be shared and Back works.
import { useEffect, useRef, useState, type ReactNode } from 'react'
import { Input, Label, SearchField, Button as AriaButton } from 'react-aria-components'
import { useSearchParams } from 'react-router'
import type { ItemOf, ListId } from '../api/contracts.ts'
import { usePage } from '../api/queries.ts'
import type { page } from '../api/client.ts'
import { Button } from './button.tsx'
import { Empty } from './empty.tsx'
import { ErrorNotice } from './error.tsx'
import { Select } from './field.tsx'

const PAGE_ITEMS = 50
/** The rows per page of a list that the API returns as a whole. */
const PAGE_ROWS = 200
/** Query parameters of the position in a list. The audit log has pages by token: these are the token and the time of the first page. */
const PLACE = ['offset', 'page_token', 'end']
/** The pause after the last key before a search starts. */
const SEARCH_MS = 300

export interface Column<T> {
  title: string
  cell: (item: T) => ReactNode
  /** Hidden on phones. */
  isMinor?: boolean
  /** Aligned right, so that numbers can be compared. */
  isNumber?: boolean
}

/** `search` and `tags` are text; `choice` is one of a few options, by default the first; `date` is a day, for example "2026-11-25". */
export type Filter =
  | { kind: 'search' | 'date'; name: string; label: string }
  | { kind: 'choice'; name: string; label: string; options: readonly (readonly [value: string, text: string])[] }
  | { kind: 'tags'; name: string }

export const BY_NAME: readonly Filter[] = [{ kind: 'search', name: 'query', label: 'Search by name or id' }]

interface ListProps<K extends ListId> {
  id: K
  /** The table's name for screen readers. */
  label: string
  params?: Record<string, string>
  /** Query fields that every request has. */
  query?: Record<string, unknown>
  filters?: readonly Filter[]
  columns: readonly Column<ItemOf<K>>[]
  keyOf: (item: ItemOf<K>) => string
  /** Shown when the list is empty without filters. */
  empty: ReactNode
  everyMs?: number
}

/** The value of each filter, in the form of the query. */
export function useFilters(filters: readonly Filter[]): { query: Record<string, unknown>; isFiltered: boolean; offset: number } {
  const [search] = useSearchParams()
  const query: Record<string, unknown> = {}
  let isFiltered = false
  for (const filter of filters) {
    if (filter.kind === 'tags') {
      const tags = Object.fromEntries(search.getAll('tag').flatMap((text) => (text.includes('=') ? [splitTag(text)] : [])))
      if (Object.keys(tags).length === 0) continue
      query[filter.name] = tags
      isFiltered = true
      continue
    }
    const given = search.get(filter.name)
    const value = filter.kind === 'choice' ? (filter.options.find(([each]) => each === given)?.[0] ?? filter.options[0]![0]) : given
    if (value) query[filter.name] = value
    if (filter.kind === 'choice' ? value !== filter.options[0]![0] : value) isFiltered = true
  }
  const offset = Number(search.get('offset'))
  return { query, isFiltered, offset: Number.isSafeInteger(offset) && offset > 0 ? offset : 0 }
}

const splitTag = (text: string): [string, string] => [text.slice(0, text.indexOf('=')), text.slice(text.indexOf('=') + 1)]

export function List<K extends ListId>({ id, label, params, query: fixed, filters = [], columns, keyOf, empty, everyMs }: ListProps<K>) {
  const { query, isFiltered, offset } = useFilters(filters)
  // Only the caller knows the types of its list; this code works for any list.
  const input = { ...(params && { params }), query: { ...fixed, ...query, limit: PAGE_ITEMS, offset } } as unknown as Parameters<typeof page<K>>[1]
  const { data, error, isPending, isFetching, isPlaceholderData, refetch } = usePage(id, input, { everyMs })
  const items = data?.items ?? []
  return (
    <section className="list" aria-label={label}>
      {filters.length > 0 && <FilterBar filters={filters} />}
      {isPending ? (
        <Loading label={label} />
      ) : !data ? (
        <ErrorNotice error={error} what="The list" retry={() => void refetch()} isPolled={everyMs !== undefined} />
      ) : (
        <>
          {error && (
            <p className="stale" role="status">
              The list may be out of date: {error.message}
            </p>
          )}
          {items.length > 0 ? (
            <Table label={label} columns={columns} items={items} keyOf={keyOf} isBusy={isPlaceholderData && isFetching} />
          ) : offset > 0 || isFiltered ? (
            <NothingHere isFiltered={isFiltered} />
          ) : (
            empty
          )}
          <Pager offset={offset} count={items.length} nextOffset={data.nextOffset} />
        </>
      )}
    </section>
  )
}

export const Loading = ({ label }: { label: string }) => (
  <div className="loading" role="status">
    <span className="spinner" aria-hidden="true" />
    Loading {label.toLowerCase()}…
  </div>
)

interface TableProps<T> {
  label: string
  columns: readonly Column<T>[]
  items: readonly T[]
  keyOf: (item: T) => string
  isBusy?: boolean
}

export const Table = <T,>({ label, columns, items, keyOf, isBusy = false }: TableProps<T>) => (
  // A wide table scrolls sideways, so the keyboard must reach it.
  <div className="table-box" tabIndex={0} role="region" aria-label={`${label}, table`}>
    <table aria-busy={isBusy}>
      <thead>
        <tr>
          {columns.map((column) => (
            <th key={column.title} scope="col" className={classOf(column)}>
              {column.title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {items.map((item) => (
          <tr key={keyOf(item)}>
            {columns.map((column) => (
              <td key={column.title} className={classOf(column)}>
                {column.cell(item)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  </div>
)

const classOf = <T,>({ isMinor, isNumber }: Column<T>): string => `${isMinor ? 'minor ' : ''}${isNumber ? 'number' : ''}`.trim()

function NothingHere({ isFiltered }: { isFiltered: boolean }) {
  const [, set] = useSearchParams()
  return (
    <Empty
      title={isFiltered ? 'Nothing matches' : 'Nothing more'}
      text={isFiltered ? 'No entry matches these filters.' : 'This page of the list has become empty.'}
    >
      <Button onPress={() => set({})}>{isFiltered ? 'Remove the filters' : 'To the first page'}</Button>
    </Empty>
  )
}

/** A table of a long list that the API returns as a whole: shows one page of its rows. As in a {@link List}, the address contains the position. */
export function Pages<T>({ items, ...table }: TableProps<T>) {
  const { offset: given } = useFilters([])
  // The list may have become shorter since.
  const offset = Math.min(given, Math.max(0, Math.ceil(items.length / PAGE_ROWS) - 1) * PAGE_ROWS)
  const shown = items.slice(offset, offset + PAGE_ROWS)
  const next = offset + PAGE_ROWS
  return (
    <>
      <Table {...table} items={shown} />
      <Pager offset={offset} count={shown.length} nextOffset={next < items.length ? next : undefined} size={PAGE_ROWS} all={items.length} />
    </>
  )
}

interface PagerProps {
  offset: number
  count: number
  nextOffset: number | undefined
  size?: number
  /** The number of items on all pages, if it is known. */
  all?: number
}

function Pager({ offset, count, nextOffset, size = PAGE_ITEMS, all }: PagerProps) {
  const [search, set] = useSearchParams()
  if (offset === 0 && nextOffset === undefined) return null
  const go = (to: number): void => {
    const next = new URLSearchParams(search)
    if (to > 0) next.set('offset', String(to))
    else next.delete('offset')
    set(next)
    document.getElementById('content')?.scrollIntoView()
    document.getElementById('content')?.scrollTo(0, 0)
  }
  return (
    <nav className="pager" aria-label="Pages of the list">
      <span className="muted">{count > 0 ? `${offset + 1}–${offset + count}${all === undefined ? '' : ` of ${all}`}` : ''}</span>
      <Button isDisabled={offset === 0} onPress={() => go(Math.max(0, offset - size))}>
        Previous
      </Button>
      <Button isDisabled={nextOffset === undefined} onPress={() => go(nextOffset!)}>
        Next
      </Button>
    </nav>
  )
}

export function FilterBar({ filters }: { filters: readonly Filter[] }) {
  const [search, set] = useSearchParams()
  // The address changes a moment later, so a second change in the meantime starts from this value.
  const latest = useRef(search)
  useEffect(() => void (latest.current = search), [search])
  const change = (edit: (next: URLSearchParams) => void): void => {
    const next = new URLSearchParams(latest.current)
    edit(next)
    // A new search starts at its first page.
    for (const name of PLACE) next.delete(name)
    latest.current = next
    set(next, { replace: true })
  }
  return (
    <div className="filters" role="search" aria-label="Filters">
      {filters.map((filter) =>
        filter.kind === 'search' ? (
          <Search
            key={filter.name}
            label={filter.label}
            value={search.get(filter.name) ?? ''}
            onChange={(text) => change((next) => (text === '' ? next.delete(filter.name) : next.set(filter.name, text)))}
          />
        ) : filter.kind === 'date' ? (
          <label key={filter.name} className="date">
            {filter.label}
            <input
              type="date"
              value={search.get(filter.name) ?? ''}
              onChange={({ target: { value } }) => change((next) => (value === '' ? next.delete(filter.name) : next.set(filter.name, value)))}
            />
          </label>
        ) : filter.kind === 'choice' ? (
          <Select
            key={filter.name}
            label={filter.label}
            isLabelHidden
            value={search.get(filter.name) ?? filter.options[0]![0]}
            options={filter.options}
            onChange={(value) => change((next) => (value === filter.options[0]![0] ? next.delete(filter.name) : next.set(filter.name, value)))}
          />
        ) : (
          <TagFilter
            key={filter.name}
            tags={search.getAll('tag')}
            onChange={(tags) => change((next) => (next.delete('tag'), tags.forEach((tag) => next.append('tag', tag))))}
          />
        ),
      )}
    </div>
  )
}

function Search({ label, value, onChange }: { label: string; value: string; onChange: (text: string) => void }) {
  const [text, setText] = useState(value)
  useEffect(() => setText(value), [value])
  useEffect(() => {
    if (text === value) return
    const timer = setTimeout(() => onChange(text), SEARCH_MS)
    return () => clearTimeout(timer)
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [text])
  return (
    <SearchField className="search" value={text} onChange={setText} onClear={() => onChange('')} maxLength={255}>
      <Label className="visually-hidden">{label}</Label>
      <Input placeholder={label} />
      {text !== '' && <AriaButton aria-label="Clear the search">×</AriaButton>}
    </SearchField>
  )
}

/** Tags that must match. Each is typed as `key=value` and Enter. */
function TagFilter({ tags, onChange }: { tags: string[]; onChange: (tags: string[]) => void }) {
  const [text, setText] = useState('')
  const [isBad, bad] = useState(false)
  const add = (): void => {
    const tag = text.trim()
    if (tag === '') return
    if (!/^[^=]+=/.test(tag)) return bad(true)
    onChange([...new Set([...tags, tag])])
    setText('')
  }
  return (
    <form
      className="tag-filter"
      onSubmit={(event) => {
        event.preventDefault()
        add()
      }}
    >
      {tags.map((tag) => (
        <span key={tag} className="tag">
          <span>{splitTag(tag)[0]}</span>
          <b>{splitTag(tag)[1]}</b>
          <AriaButton aria-label={`Remove the tag ${tag}`} onPress={() => onChange(tags.filter((each) => each !== tag))}>
            ×
          </AriaButton>
        </span>
      ))}
      <label>
        <span className="visually-hidden">Tag, as key=value</span>
        <input
          value={text}
          onChange={(event) => (setText(event.target.value), bad(false))}
          placeholder="tag=value"
          aria-invalid={isBad}
          aria-describedby={isBad ? 'tag-problem' : undefined}
          maxLength={1280}
        />
      </label>
      {isBad && (
        <span id="tag-problem" className="problem" role="alert">
          Write key=value
        </span>
      )}
    </form>
  )
}
