// Starts a session from the list.
import { useNavigate } from 'react-router'
import { useChange } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { FormDialog } from '../../ui/form.tsx'
import type { Body } from '../../ui/form-values.ts'
import { useProfileFields, withoutNo } from './profile-fields.ts'

const DEFAULT_MINUTES = '10'
const MINUTE_SECONDS = 60

/** The form's field has the name of the call's seconds but contains minutes, so that the service's error appears next to it. */
const bodyOf = ({ timeout_seconds: minutes, ...rest }: Body) => ({ ...withoutNo(rest), timeout_seconds: Math.round(Number(minutes) * MINUTE_SECONDS) })

export function NewSession() {
  const create = useChange('createBrowser', ['listBrowsers'])
  const navigate = useNavigate()
  const profileFields = useProfileFields()
  return (
    <FormDialog
      title="New session"
      trigger={<Button look="primary">New session</Button>}
      fields={[
        { name: 'start_url', label: 'Start page', placeholder: 'https://…', hint: 'The page that it opens first. May be empty.' },
        { name: 'name', label: 'Name', hint: 'May be empty; programs can use it in place of the id.' },
        {
          name: 'timeout_seconds',
          label: 'Ends after so many idle minutes',
          kind: 'number',
          initial: DEFAULT_MINUTES,
          isRequired: true,
          hint: 'From 10 seconds, which is 0.17, to three days, which is 4320.',
        },
        ...profileFields,
      ]}
      action="Start"
      send={async (body) => {
        const { session_id: id } = await create.mutateAsync({ body: bodyOf(body) })
        await navigate(`/sessions/${id}`)
      }}
    />
  )
}
