// Invokes an action of an app with a payload.
import { useNavigate } from 'react-router'
import { bytes } from '../../api/client.ts'
import type { AnswerOf, ItemOf } from '../../api/contracts.ts'
import { queries } from '../../api/queries.ts'
import { RowButton } from '../../ui/button.tsx'
import { FormDialog } from '../../ui/form.tsx'

export function Invoke({ app: { app_name: name, version, actions } }: { app: ItemOf<'listApps'> }) {
  const navigate = useNavigate()
  return (
    <FormDialog
      title={`Invoke ${name}`}
      trigger={<RowButton label={`Invoke ${name} ${version}`}>Invoke</RowButton>}
      fields={[
        { name: 'action_name', label: 'Action', kind: 'choice', options: actions.map((action) => [action.name, action.name] as const) },
        { name: 'payload', label: 'Payload', kind: 'json', rows: 6, placeholder: '{"url": "https://example.com"}', hint: 'JSON. May be empty.' },
        { name: 'async_timeout_seconds', label: 'Ends after so many seconds', kind: 'number', initial: '900', isRequired: true, hint: 'From 10 to 3600.' },
      ]}
      action="Invoke"
      send={async ({ action_name: action, payload, async_timeout_seconds: seconds }) => {
        const response = await bytes('createInvocation', {
          body: {
            app_name: name,
            version,
            action_name: action as string,
            async: true,
            async_timeout_seconds: seconds as number,
            ...(payload !== undefined && { payload: JSON.stringify(payload) }),
          },
        })
        const { id } = (await response.json()) as Pick<AnswerOf<'getInvocation'>, 'id'>
        await queries.invalidateQueries({ queryKey: ['listInvocations'] })
        await navigate(`/invocations/${id}`)
      }}
    />
  )
}
