// A page about one thing: while it loads, when it does not exist, and with its header.
import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { ApiError } from '../api/client.ts'
import { ErrorNotice } from './error.tsx'
import { Loading } from './list.tsx'
import { Head, usePageTitle } from './page.tsx'

interface ThingProps<T> {
  query: UseQueryResult<T>
  /** For example "This pool". */
  what: string
  back: ReactNode
  titleOf: (thing: T) => string
  text?: (thing: T) => ReactNode
  buttons?: (thing: T) => ReactNode
  children: (thing: T) => ReactNode
}

export function Thing<T>({ query: { data, error, isPending, refetch }, what, back, titleOf, text, buttons, children }: ThingProps<T>) {
  usePageTitle(data && titleOf(data))
  // A failed refetch must not remove what is shown. A deleted thing must be removed.
  if (!data || (error instanceof ApiError && error.status === 404))
    return (
      <>
        <Head title={what.replace(/^This /, '').replace(/^./, (first) => first.toUpperCase())} back={back} />
        {isPending ? <Loading label={what} /> : <ErrorNotice error={error} what={what} retry={() => void refetch()} isPolled />}
      </>
    )
  return (
    <>
      <Head title={titleOf(data)} back={back} text={text?.(data)}>
        {buttons?.(data)}
      </Head>
      {children(data)}
    </>
  )
}
