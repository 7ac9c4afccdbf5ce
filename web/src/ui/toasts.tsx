// Short messages in a corner: what was done, or what failed. Errors of a page itself are shown in the page (error.tsx).
import {
  Button,
  Text,
  UNSTABLE_Toast as Toast,
  UNSTABLE_ToastContent as ToastContent,
  UNSTABLE_ToastQueue as ToastQueue,
  UNSTABLE_ToastRegion as ToastRegion,
} from 'react-aria-components'
import { adviceOn } from './advice.ts'

interface Message {
  kind: 'done' | 'failed'
  title: string
  text?: string | undefined
}

const DONE_MS = 5_000
const queue = new ToastQueue<Message>({ maxVisibleToasts: 3 })

export const done = (title: string): void => void queue.add({ kind: 'done', title }, { timeout: DONE_MS })

/** For `catch`: shows what failed, why, and what to do. The message stays until it is closed. */
export const failed =
  (title: string) =>
  (error: unknown): void =>
    void queue.add({ kind: 'failed', title, text: adviceOn(error) })

export const Toasts = () => (
  <ToastRegion queue={queue} className="toasts" aria-label="Messages">
    {({ toast }) => (
      <Toast toast={toast} className={`toast ${toast.content.kind}`}>
        <ToastContent>
          <Text slot="title">{toast.content.title}</Text>
          {toast.content.text !== undefined && <Text slot="description">{toast.content.text}</Text>}
        </ToastContent>
        <Button slot="close" aria-label="Close">
          ×
        </Button>
      </Toast>
    )}
  </ToastRegion>
)
