// The sign-in page: with an API key, or with an identity provider that the operator has set up.
import { useState, type FormEvent } from 'react'
import { useCall } from '../api/queries.ts'
import { signInWithKey } from '../api/sign-in.ts'
import { adviceOn } from '../ui/advice.ts'
import { Button } from '../ui/button.tsx'
import { Field } from '../ui/field.tsx'

export function SignIn() {
  const [key, setKey] = useState('')
  const [problem, setProblem] = useState<string>()
  const [isBusy, busy] = useState(false)
  const options = useCall('getSignInOptions', {})

  const submit = (event: FormEvent): void => {
    event.preventDefault()
    if (key.trim() === '') return setProblem('Enter a key.')
    busy(true)
    setProblem(undefined)
    signInWithKey(key.trim())
      .catch((error: unknown) => setProblem(adviceOn(error)))
      .finally(() => busy(false))
  }

  const providers = options.data?.providers ?? []
  const returnTo = encodeURIComponent(`${location.pathname}${location.search}`)
  return (
    <main className="sign-in">
      <div className="card">
        <h1>
          <img src="/dashboard/icon.svg" alt="" width="28" height="28" /> Sign in to Cob
        </h1>
        {providers.length > 0 && (
          <div className="providers">
            {providers.map(({ id, name }) => (
              <a key={id} className="button plain" href={`/sign-in/oidc/${encodeURIComponent(id)}?return_to=${returnTo}`}>
                Continue with {name}
              </a>
            ))}
          </div>
        )}
        <form onSubmit={submit} noValidate>
          <Field
            label="API key"
            type="password"
            name="api-key"
            autoComplete="current-password"
            value={key}
            onChange={setKey}
            {...(problem !== undefined && { problem })}
            hint="The first start of the service prints one. It is also in the file api-key of its data directory."
          />
          <Button look="primary" type="submit" isDisabled={isBusy}>
            {isBusy ? 'Signing in…' : 'Sign in'}
          </Button>
        </form>
      </div>
      <p className="foot">
        <a href="/docs">Documentation</a>
      </p>
    </main>
  )
}
