// Starting a session from the list.
import { useState } from 'react'
import { useNavigate } from 'react-router'
import { useChange } from '../../api/queries.ts'
import { adviceOn } from '../../ui/advice.ts'
import { Button } from '../../ui/button.tsx'
import { Dialog } from '../../ui/confirm.tsx'
import { Field } from '../../ui/field.tsx'

const DEFAULT_MINUTES = '10'

export const NewSession = () => (
  <Dialog title="New session" trigger={<Button look="primary">New session</Button>}>
    {(close) => <Form close={close} />}
  </Dialog>
)

function Form({ close }: { close: () => void }) {
  const [name, setName] = useState('')
  const [url, setUrl] = useState('')
  const [minutes, setMinutes] = useState(DEFAULT_MINUTES)
  const create = useChange('createBrowser', ['listBrowsers'])
  const navigate = useNavigate()
  const seconds = Math.round(Number(minutes) * 60)
  const problem = Number.isInteger(seconds) && seconds >= 10 && seconds <= 259_200 ? undefined : 'From 0.2 minutes to 4320 (three days).'
  const submit = (): void => {
    if (problem !== undefined) return
    create.mutate(
      { body: { timeout_seconds: seconds, ...(name && { name }), ...(url && { start_url: url }) } },
      {
        onSuccess: ({ session_id: id }) => {
          close()
          void navigate(`/sessions/${id}`)
        },
      },
    )
  }
  return (
    <form
      className="dialog-form"
      noValidate
      onSubmit={(event) => {
        event.preventDefault()
        submit()
      }}
    >
      <Field label="Start page" type="url" value={url} onChange={setUrl} placeholder="https://…" autoFocus hint="The page that it opens first. May be empty." />
      <Field label="Name" value={name} onChange={setName} maxLength={255} hint="May be empty; programs can use it in place of the id." />
      <Field label="Ends after so many idle minutes" inputMode="decimal" value={minutes} onChange={setMinutes} {...(problem && { problem })} />
      {create.error && (
        <p className="problem" role="alert">
          {adviceOn(create.error)}
        </p>
      )}
      <div className="buttons">
        <Button onPress={close}>Cancel</Button>
        <Button look="primary" type="submit" isDisabled={create.isPending}>
          {create.isPending ? 'Starting…' : 'Start'}
        </Button>
      </div>
    </form>
  )
}
