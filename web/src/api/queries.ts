// Fetching, caching and refetching: the settings of TanStack Query, and its hooks for the typed calls.
import { keepPreviousData, QueryCache, QueryClient, useMutation, useQuery, type UseMutationResult, type UseQueryResult } from '@tanstack/react-query'
import { signedOut } from './account.ts'
import { ApiError, call, page, type Page } from './client.ts'
import type { AnswerOf, CallId, InputOf, ItemOf, ListId } from './contracts.ts'
import { useProject } from './project.ts'
import { upload, type Progress } from './upload.ts'

/** The number of retries of a read. A write is never retried, because it may have succeeded. */
const RETRIES = 2

export const queries: QueryClient = new QueryClient({
  queryCache: new QueryCache({ onError: (error) => noteRefusal(error) }),
  defaultOptions: {
    queries: {
      retry: (failures, error) => failures < RETRIES && (!(error instanceof ApiError) || error.status === 0 || error.status >= 500),
      staleTime: 2_000,
      networkMode: 'always',
    },
    mutations: { retry: false, networkMode: 'always', onError: (error) => noteRefusal(error) },
  },
})

/** A 401 means that the key was deleted or the session cookie has expired. */
function noteRefusal(error: unknown): void {
  if (error instanceof ApiError && error.status === 401) signedOut()
}

interface ReadOptions {
  /** The interval of refetches, while the page is visible. */
  everyMs?: number | undefined
  enabled?: boolean
}

type Sent<K extends CallId> = Parameters<typeof call<K>>[1]

/** Reads a call's answer. It is fetched again when the input or the project changes. */
export function useCall<K extends CallId>(id: K, input: Sent<K>, { everyMs, enabled = true }: ReadOptions = {}): UseQueryResult<AnswerOf<K>> {
  const project = useProject()
  return useQuery({
    queryKey: [id, input, project],
    // TanStack Query does not accept undefined.
    queryFn: async ({ signal }) => (await call(id, input, { signal })) ?? (null as unknown as AnswerOf<K>),
    refetchInterval: everyMs ?? false,
    enabled,
  })
}

/** Reads one page of a list. While the next page is fetched, the present one stays. */
export function usePage<K extends ListId>(id: K, input: Sent<K>, { everyMs, enabled = true }: ReadOptions = {}): UseQueryResult<Page<ItemOf<K>>> {
  const project = useProject()
  return useQuery({
    queryKey: [id, input, project],
    queryFn: ({ signal }) => page(id, input, { signal }),
    refetchInterval: everyMs ?? false,
    placeholderData: keepPreviousData,
    enabled,
  })
}

/** Makes a call that changes something. `changes` names the reads that are outdated after it. */
export function useChange<K extends CallId>(id: K, changes: readonly CallId[] = []): UseMutationResult<AnswerOf<K>, Error, Sent<K>> {
  return useMutation({
    mutationFn: (input: Sent<K>) => call(id, input),
    onSettled: () => refetch(changes),
  })
}

/** Makes such a call with a form that has a file. `progress` gets the part that has been sent. */
export function useUpload<K extends CallId>(
  id: K,
  changes: readonly CallId[] = [],
): UseMutationResult<AnswerOf<K>, Error, { body: FormData; progress: Progress }> {
  return useMutation({
    mutationFn: ({ body, progress }) => upload(id, { body }, progress),
    onSettled: () => refetch(changes),
  })
}

const refetch = (changes: readonly CallId[]): Promise<unknown> => Promise.all(changes.map((queryKey) => queries.invalidateQueries({ queryKey: [queryKey] })))

export type { InputOf }
