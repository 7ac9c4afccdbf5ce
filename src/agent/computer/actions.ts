// Plans every action that changes something on the screen from the body that a caller sent, alone or in a batch.
import { sleep } from '../../base/wait.ts'
import type { Cursor } from '../display/display.ts'
import type { Action, SetCursor, Sleep } from './contract.ts'
import type { NamedPlan, Planned } from './input-queue.ts'
import { keyPlans, type KeyTools } from './keys.ts'
import { pointerPlans, type PointerTools } from './pointer.ts'

export interface Tools extends PointerTools, KeyTools {
  cursor: Cursor
}

export type Actions = ReturnType<typeof makeActions>

/** A plan for each kind of action. A new kind needs an entry here and one in the contract. */
export function makeActions(tools: Tools) {
  const { click, move, drag, scroll } = pointerPlans(tools)
  const { press, type } = keyPlans(tools)
  const setCursor = ({ hidden }: SetCursor): Planned => ({ ms: 0, run: async () => tools.cursor.hide(hidden) })
  const pause = ({ duration_ms: ms }: Sleep): Planned => ({ ms, run: (_grip, signal) => sleep(ms, signal) })

  function plan(action: Action, at: string): Planned {
    switch (action.type) {
      case 'click_mouse':
        return click(action.click_mouse, at)
      case 'move_mouse':
        return move(action.move_mouse, at)
      case 'type_text':
        return type(action.type_text, at)
      case 'press_key':
        return press(action.press_key, at)
      case 'scroll':
        return scroll(action.scroll, at)
      case 'drag_mouse':
        return drag(action.drag_mouse, at)
      case 'set_cursor':
        return setCursor(action.set_cursor)
      case 'sleep':
        return pause(action.sleep)
    }
  }

  /** Plans a whole batch before any action runs. @throws 400 naming the field, `actions.2.click_mouse.x` */
  const batch = (actions: readonly Action[]): NamedPlan[] =>
    actions.map((action, index) => ({ name: `actions.${index} (${action.type})`, ...plan(action, `actions.${index}.${action.type}.`) }))

  return { click, move, drag, scroll, press, type, setCursor, batch }
}
