// Clicks, keys and scrolling by users and by programs that act like users. What is captured and left out in pages: in-page/interaction.js.
import type { NewEvent } from '../telemetry.ts'
import type { Collector } from './collector.ts'
import type { Secrets } from '../../../base/redact/redact.ts'
import { Share } from './share.ts'
import { text } from './watched.ts'
import { worldOf, type Said } from './world.ts'
import { CLICK_TEXT, MAX_KEY, MAX_SELECTOR, MAX_TAG, MAX_TOLD } from '../limits.ts'

export const interaction = (secrets: Secrets): Collector => ({
  categories: ['interaction'],
  types: ['page', 'iframe'],
  watch(target, telemetry) {
    const losses = new Share('interaction', target, telemetry)
    const hear = (said: Said, frameId: string) => {
      if (!telemetry.captures('interaction')) return
      const event = eventOf(said, secrets)
      if (!event) return
      // The address of a frame is not known here.
      const context = target.context(frameId === target.session.targetId ? {} : { frame_id: frameId, loader_id: undefined })
      telemetry.emit({ ...event, data: { ...context, ...event.data } })
    }
    return worldOf(target).use('interaction', hear, () => losses.lose())
  },
})

const source = { kind: 'cdp', event: 'Runtime.bindingCalled' } as const

function eventOf(said: Said, secrets: Secrets): NewEvent | undefined {
  const clean = (value: unknown, max: number) => secrets.scrubCut(text(value, MAX_TOLD), max).text || undefined
  switch (said.type) {
    case 'click': {
      const { x, y, tag, selector, text: shown } = said
      const data = { x: pixel(x), y: pixel(y), tag: clean(tag, MAX_TAG) ?? '', selector: clean(selector, MAX_SELECTOR), text: clean(shown, CLICK_TEXT) }
      return { type: 'interaction_click', source, data }
    }
    case 'key':
      return {
        type: 'interaction_key',
        source,
        data: { key: clean(said.key, MAX_KEY) ?? '', tag: clean(said.tag, MAX_TAG) ?? '', selector: clean(said.selector, MAX_SELECTOR) },
      }
    case 'scroll': {
      const [from_x, from_y, to_x, to_y] = [said.fromX, said.fromY, said.toX, said.toY].map(pixel)
      return { type: 'interaction_scroll_settled', source, data: { from_x, from_y, to_x, to_y, target_selector: clean(said.selector, MAX_SELECTOR) } }
    }
    default:
      return undefined
  }
}

const pixel = (value: unknown): number => (Number.isFinite(value) ? Math.round(value as number) : 0)
