// The first content of the playground, and an action of each kind.

export const FIRST_CODE = `await page.goto('https://example.com')
console.log(await page.title())
return { url: page.url(), links: await page.locator('a').count() }`

export const ACTIONS = {
  click_mouse: { x: 640, y: 400 },
  type_text: { text: 'hello' },
  press_key: { keys: ['Enter'] },
  scroll: { x: 640, y: 400, delta_y: 3 },
  move_mouse: { x: 200, y: 200 },
  drag_mouse: {
    path: [
      [200, 200],
      [600, 400],
    ],
  },
  sleep: { duration_ms: 500 },
}
export type ActionKind = keyof typeof ACTIONS

const actionOf = (kind: ActionKind): object => ({ type: kind, [kind]: ACTIONS[kind] })

/** Writes one action per line. */
const written = (actions: readonly unknown[]): string =>
  actions.length === 0 ? '[]' : `[\n${actions.map((action) => `  ${JSON.stringify(action)}`).join(',\n')}\n]`

export const FIRST_ACTIONS = written([
  { type: 'press_key', press_key: { keys: ['ctrl+l'] } },
  { type: 'type_text', type_text: { text: 'https://example.com' } },
  { type: 'press_key', press_key: { keys: ['Enter'] } },
])

/** Adds an action to the end of the list. A text that is not a list stays unchanged, so that nothing that the person typed is lost. */
export function withAction(text: string, kind: ActionKind): string {
  if (text.trim() === '') return written([actionOf(kind)])
  try {
    const actions = JSON.parse(text) as unknown
    return Array.isArray(actions) ? written([...(actions as unknown[]), actionOf(kind)]) : text
  } catch {
    return text
  }
}
