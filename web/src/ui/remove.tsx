// Deletes one thing: asks, deletes, and reports it.
import type { ReactNode } from 'react'
import type { call as callOf } from '../api/client.ts'
import { useChange } from '../api/queries.ts'
import type { CallId } from '../api/contracts.ts'
import { Button } from './button.tsx'
import { Confirm } from './confirm.tsx'
import { done } from './toasts.tsx'

interface RemoveProps<K extends CallId> {
  call: K
  input: Parameters<typeof callOf<K>>[1]
  /** The reads that are outdated after the deletion. */
  changes: readonly CallId[]
  /** The kind of thing as in a sentence: "the profile". */
  what: string
  name: string
  /** The effect on things that use it. */
  text: ReactNode
  /** In a row of a table the look is `quiet`. */
  look?: 'danger' | 'quiet'
  onDone?: () => void
}

export function Remove<K extends CallId>({ call, input, changes, what, name, text, look = 'quiet', onDone }: RemoveProps<K>) {
  const remove = useChange(call, changes)
  return (
    <Confirm
      title={`Delete ${what}?`}
      text={
        <p>
          <b>{name}</b>: {text}
        </p>
      }
      action="Delete"
      trigger={
        <Button look={look} aria-label={`Delete ${name}`}>
          Delete
        </Button>
      }
      onConfirm={async () => {
        await (remove.mutateAsync as (given: typeof input) => Promise<unknown>)(input)
        done('Deleted')
        onDone?.()
      }}
    />
  )
}
