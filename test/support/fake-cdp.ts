// A fake Chromium for tests of the agent's CDP client and its users: it answers commands as the test says, and sends the test's events.
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
  sent: SentCommand[]
  /** The answer to each command, `{}` by default. An Error is a refusal by Chromium; a promise that never settles is no answer. */
  replies: Record<string, (params: Record<string, unknown>) => unknown>
  emit(method: string, params: object, sessionId?: string): void
}

/** It names its sessions `session-1`, `session-2` and so on. */
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

/** For {@link FakeCdp.replies}: gives no answer. */
export const silence = (): Promise<never> => new Promise(() => {})

/** Collects the exceptions that reach the top-level handler, until it is disposed. */
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
