// A lean instance: it starts with the headless shell and its display over CDP, and gets the full browser with an X server when a setting needs that.
import type { Log } from '../base/log.ts'
import type { Keeper } from './chromium/keeper.ts'
import { openCdpDisplay } from './display/cdp/display.ts'
import type { Display } from './display/display.ts'
import { exchangeable } from './display/exchangeable.ts'
import type { AgentSpec } from './spec.ts'

interface LeanSettings {
  spec: AgentSpec
  /** The keeper needs the display, so it is made after it. */
  keeper: () => Keeper
  /** The environment of a browser at this display. */
  environment: (display: Pick<Display, 'env'>) => NodeJS.ProcessEnv
  log: Log
  signal: AbortSignal
}

export function openLean({ spec, keeper, environment, log, signal }: LeanSettings): { display: Display; becomeFull: () => Promise<void> } {
  const display = exchangeable(openCdpDisplay({ run: () => keeper().run() }, spec.viewport, log))
  let becoming: Promise<void> | undefined

  /** The X server starts first: if it does not, nothing has changed. */
  async function become(): Promise<void> {
    log.info({}, 'a setting needs the full browser; it takes the place of the lean one')
    await using undo = new AsyncDisposableStack()
    const [{ openXDisplay }, { startDisplay }] = await Promise.all([import('./display/x/display.ts'), import('./display/x/xvfb.ts')])
    undo.use(startDisplay(spec.maxScreen))
    const next = await openXDisplay(display.screen.viewport, log, signal)
    undo.defer(() => next.close())
    let former: Display | undefined
    await keeper().replace({ program: spec.chromium, env: environment(next) }, async () => {
      const lean = (former = await display.exchange(next))
      return async () => void (await display.exchange(lean))
    })
    former?.close()
    undo.move()
  }

  return {
    display,
    becomeFull: () =>
      (becoming ??= become().catch((error: unknown) => {
        becoming = undefined
        throw error
      })),
  }
}
