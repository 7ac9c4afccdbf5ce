// A Chromium for tests of the agent's CDP client and its users: answers commands as a test says, and sends the events of a test.
import { vi } from 'vitest'
import { makeCdp, type Cdp, type CdpReceiver } from '../../src/agent/chromium/cdp.ts'

export interface SentCommand {
  id: number
  method: string
  params: Record<string, unknown>
  sessionId?: string
}

export interface FakeCdp {
  cdp: Cdp
  receiver: CdpReceiver
  /** The commands so far. */
  sent: SentCommand[]
  /** What each command answers: `{}`, if nothing else is given. An Error is Chromium's refusal; a promise that does not settle is no answer. */
  replies: Record<string, (params: Record<string, unknown>) => unknown>
  emit(method: string, params: object, sessionId?: string): void
}

/** The sessions that it opens are `session-1`, `session-2` and so on. */
export function fakeCdp(replies: FakeCdp['replies'] = {}): FakeCdp {
  const sent: SentCommand[] = []
  let sessions = 0
  replies['Target.attachToTarget'] ??= () => ({ sessionId: `session-${++sessions}` })
  const tell = (message: object) => receiver.onMessage(JSON.stringify(message))
  const answer = async ({ id, method, params, sessionId }: SentCommand) => {
    try {
      tell({ id, result: (await replies[method]?.(params)) ?? {}, sessionId })
    } catch (error) {
      tell({ id, error: { code: -32_000, message: (error as Error).message }, sessionId })
    }
  }
  const { cdp, receiver } = makeCdp((text) => {
    const command = JSON.parse(text) as SentCommand
    sent.push(command)
    void answer(command)
  })
  return { cdp, receiver, sent, replies, emit: (method, params, sessionId) => tell({ method, params, sessionId }) }
}

/** For {@link FakeCdp.replies}: no answer. */
export const silence = (): Promise<never> => new Promise(() => {})

/** Collects the exceptions that reach the top-level handler, until it is disposed of. */
export function exceptionsAtTop(): Disposable & { thrown: string[] } {
  const thrown: string[] = []
  const spy = vi.spyOn(globalThis, 'queueMicrotask').mockImplementation((work) => {
    try {
      work()
    } catch (error) {
      thrown.push((error as Error).message)
    }
  })
  return { thrown, [Symbol.dispose]: () => spy.mockRestore() }
}
