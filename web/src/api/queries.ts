// What is fetched, kept and fetched again: the settings of TanStack Query, and its hooks over the typed calls.
import { keepPreviousData, QueryCache, QueryClient, useMutation, useQuery, type UseMutationResult, type UseQueryResult } from '@tanstack/react-query'
import { signedOut } from './account.ts'
import { ApiError, call, page, type Page } from './client.ts'
import type { AnswerOf, CallId, InputOf, ItemOf, ListId } from './contracts.ts'
import { useProject } from './project.ts'
import { upload, type Progress } from './upload.ts'

/** Most times that a read is tried again. Writes are never: what they ask for may have happened. */
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

/** A key that was deleted, or a session cookie that has ended. */
function noteRefusal(error: unknown): void {
  if (error instanceof ApiError && error.status === 401) signedOut()
}

interface ReadOptions {
  /** Fetch again after so many milliseconds, while the page is visible. */
  everyMs?: number | undefined
  enabled?: boolean
}

type Sent<K extends CallId> = Parameters<typeof call<K>>[1]

/** What a call answers. It is fetched again when its input or the project changes. */
export function useCall<K extends CallId>(id: K, input: Sent<K>, { everyMs, enabled = true }: ReadOptions = {}): UseQueryResult<AnswerOf<K>> {
  const project = useProject()
  return useQuery({
    queryKey: [id, input, project],
    // TanStack Query takes no undefined.
    queryFn: async ({ signal }) => (await call(id, input, { signal })) ?? (null as unknown as AnswerOf<K>),
    refetchInterval: everyMs ?? false,
    enabled,
  })
}

/** A page of a list. While the next one is fetched, the one before it stays. */
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

/** A call that changes something. `changes` names the reads that are out of date after it. */
export function useChange<K extends CallId>(id: K, changes: readonly CallId[] = []): UseMutationResult<AnswerOf<K>, Error, Sent<K>> {
  return useMutation({
    mutationFn: (input: Sent<K>) => call(id, input),
    onSettled: () => refetch(changes),
  })
}

/** The same for one that sends a form with a file. `progress` is told which part of it has been sent. */
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
