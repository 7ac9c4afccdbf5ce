// The button that ends a session after a confirmation.
import { useChange } from '../../api/queries.ts'
import { useMay } from '../../api/sign-in.ts'
import { Button } from '../../ui/button.tsx'
import { Confirm } from '../../ui/confirm.tsx'
import { done } from '../../ui/toasts.tsx'
import { nameOf, type Session } from './model.ts'

/** In a row of a table its look is `quiet`. */
export function End({ session, look, onDone }: { session: Session; look: 'quiet' | 'danger'; onDone?: () => void }) {
  const end = useChange('deleteBrowser', ['listBrowsers', 'getBrowser'])
  if (!useMay('deleteBrowser')) return null
  return (
    <Confirm
      title="End this session?"
      text={
        <p>
          The browser of <b>{nameOf(session)}</b> and its files are gone after that. Replays, and telemetry that is stored, stay.
        </p>
      }
      action="End"
      trigger={
        <Button look={look} {...(look === 'quiet' && { 'aria-label': `End ${nameOf(session)}` })}>
          {look === 'quiet' ? 'End' : 'End session'}
        </Button>
      }
      onConfirm={async () => {
        await end.mutateAsync({ params: { id_or_name: session.session_id } })
        done('The session has ended')
        onDone?.()
      }}
    />
  )
}
