// The computer contract, answered by the screen and the hands.
import type { Handlers } from '../../http/route.ts'
import type { Screen } from '../display/screen.ts'
import type { computer } from './contract.ts'
import type { Hands } from './hands.ts'
import { screenshot } from './screenshot.ts'

export const computerHandlers = (screen: Screen, hands: Hands): Handlers<typeof computer> => ({
  captureScreenshot: ({ body, signal }) => hands.turn(() => screenshot(screen, body.region), signal),
  dragMouse: ({ body, signal }) => hands.drag(body, signal),
})
