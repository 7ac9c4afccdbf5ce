// Whether the tab is visible. Streams pause while it is hidden: they use connections, and some keep a session alive.

/** Resolves as soon as the tab is visible. @throws the reason of `signal` */
export const visible = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason as Error)
    if (!document.hidden) return resolve()
    document.addEventListener('visibilitychange', () => document.hidden || resolve(), { signal })
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
  })

/** Runs `work` with a signal that also aborts when the tab is hidden. Resolves with false when `work` was ended by that or by `signal`. */
export async function whileVisible(signal: AbortSignal, work: (signal: AbortSignal) => Promise<void>): Promise<boolean> {
  const hidden = new AbortController()
  const hide = (): void => void (document.hidden && hidden.abort())
  document.addEventListener('visibilitychange', hide)
  const both = AbortSignal.any([signal, hidden.signal])
  try {
    await work(both)
    return !both.aborted
  } catch (error) {
    if (!both.aborted) throw error
    return false
  } finally {
    document.removeEventListener('visibilitychange', hide)
  }
}
