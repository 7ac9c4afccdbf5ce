// What a page shows instead of content that could not be fetched: what is wrong, and what to do.
import { ApiError } from '../api/client.ts'
import { adviceOn } from './advice.ts'
import { Button } from './button.tsx'

export function ErrorNotice({ error, retry, what = 'This' }: { error: unknown; retry?: () => void; what?: string }) {
  const title =
    error instanceof ApiError && error.status === 404
      ? `${what} is not there`
      : error instanceof ApiError && error.status === 403
        ? `${what} is not yours to see`
        : `${what} could not be loaded`
  return (
    <div className="notice" role="alert">
      <h2>{title}</h2>
      <p>{adviceOn(error)}</p>
      {retry && <Button onPress={retry}>Try again</Button>}
    </div>
  )
}
