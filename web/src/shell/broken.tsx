// Replaces a page that fails: a newer version of the dashboard was installed, or the dashboard has a bug.
import { isRouteErrorResponse, Link, useRouteError } from 'react-router'
import { Button } from '../ui/button.tsx'

/** A chunk cannot be loaded: the service was upgraded since this page was opened, or it is down. */
const isChunk = (error: unknown): boolean => error instanceof TypeError && /dynamically imported module|module script|Importing a module/i.test(error.message)

export function Broken() {
  const error = useRouteError()
  if (isRouteErrorResponse(error) && error.status === 404) return <NoSuchPage />
  return (
    <main className="notice" role="alert">
      <h1>{isChunk(error) ? 'The dashboard has changed' : 'This page has failed'}</h1>
      <p>
        {isChunk(error)
          ? 'A part of the page could not be loaded. The service may have been upgraded since you opened it, or it cannot be reached.'
          : 'This is a mistake of the dashboard. Reload the page; if it comes back, report it with the text below.'}
      </p>
      {!isChunk(error) && <pre>{error instanceof Error ? error.message : String(error)}</pre>}
      <Button look="primary" onPress={() => location.reload()}>
        Reload
      </Button>
    </main>
  )
}

export function NoSuchPage() {
  return (
    <div className="notice">
      <h1>There is no such page</h1>
      <p>
        The address may be misspelled, or from another version of the dashboard. <Link to="/sessions">Go to the sessions.</Link>
      </p>
    </div>
  )
}
