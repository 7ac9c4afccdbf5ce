// Replaces content that could not be fetched: says what is wrong, and what to do.
import { ApiError } from '../api/client.ts'
import { adviceOn } from './advice.ts'
import { Button } from './button.tsx'

interface NoticeProps {
  error: unknown
  retry?: () => void
  what?: string
  /** The page fetches the content again at intervals. */
  isPolled?: boolean
}

export function ErrorNotice({ error, retry, what = 'This', isPolled = false }: NoticeProps) {
  const title =
    error instanceof ApiError && error.status === 404
      ? `${what} is not there`
      : error instanceof ApiError && error.status === 403
        ? `${what} is not yours to see`
        : `${what} could not be loaded`
  return (
    <div className="notice" role="alert">
      <h2>{title}</h2>
      <p>{adviceOn(error, isPolled ? 'again' : undefined)}</p>
      {retry && <Button onPress={retry}>Try again</Button>}
    </div>
  )
}
