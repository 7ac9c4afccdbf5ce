// A button that acts at once, without a question or a form.
import { useState, type ReactNode } from 'react'
import { Button } from './button.tsx'
import { failed } from './toasts.tsx'

interface ActProps {
  children: ReactNode
  /** The text while it works. */
  busy: string
  /** For screen readers in rows of a table: the thing that the button is about. */
  label?: string
  look?: 'plain' | 'primary' | 'quiet'
  /** The error text; the reason is added. */
  failure: string
  work: () => Promise<unknown>
}

export function Act({ children, busy, label, look = 'quiet', failure, work }: ActProps) {
  const [isBusy, set] = useState(false)
  const act = async (): Promise<void> => {
    set(true)
    try {
      await work()
    } catch (error) {
      failed(failure)(error)
    } finally {
      set(false)
    }
  }
  return (
    <Button look={look} isDisabled={isBusy} onPress={() => void act()} {...(label !== undefined && { 'aria-label': label })}>
      {isBusy ? busy : children}
    </Button>
  )
}
