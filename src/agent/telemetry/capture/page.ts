// The life of pages: navigations, loading, layout shifts while a page loads and the moment when it is settled, opened tabs, crashed pages.
import type { CdpSession } from '../../chromium/cdp.ts'
import type { Protocol } from '../../chromium/cdp-protocol.ts'
import type { NewEvent, Teller } from '../telemetry.ts'
import { watching, type Collector, type WatchedTarget } from './collector.ts'
import type { Secrets } from '../../../base/redact/redact.ts'
import { Share } from './share.ts'
import { addressOf, isInternal, text } from './watched.ts'
import { withhold } from './withheld.ts'
import { MAX_ID, MAX_RAW_URL, MAX_TITLE, MAX_URL, PAGE_A_SECOND, SETTLED_MS } from '../limits.ts'

const cdp = (event: string) => ({ kind: 'cdp', event }) as const

export const page = (secrets: Secrets): Collector => ({
  categories: ['page'],
  types: ['page', 'iframe'],
  watch(target, telemetry) {
    const share = new Share('page', target, telemetry, PAGE_A_SECOND)
    const emit: Emit = (event, isOfFrame) => (share.fits(isOfFrame ? 'frames' : 'document') ? telemetry.emit(event) : share.lose())
    const ends = [() => share.tell(), watchNavigations(target, { telemetry, emit }, secrets)]
    if (target.type === 'page') ends.push(watchLoading(target, emit))
    ends.push(watchTimeline(target, { telemetry, emit }, secrets))
    const { session } = target
    if (target.type === 'page')
      ends.push(
        session.on('Inspector.targetCrashed', () => {
          const { target_id, target_type, session_id = '', url } = target.context()
          telemetry.emit({
            type: 'page_crashed',
            source: { ...cdp('Inspector.targetCrashed'), metadata: { target_id, session_id } },
            data: { target_id, target_type, url },
          })
        }),
      )
    const timeline = (...eventTypes: string[]) => session.send('PerformanceTimeline.enable', { eventTypes })
    return watching(target, {
      begin: () => Promise.all([timeline('layout-shift', 'largest-contentful-paint'), target.type === 'page' && session.send('Inspector.enable', {})]),
      end: () => ends.forEach((end) => end()),
      disable: () => timeline(),
    })
  },
})

/** Emits an event. `isOfFrame`: it belongs to a frame inside the page, or is one of many of its document. */
type Emit = (event: NewEvent, isOfFrame: boolean) => void

/** Emits the event of a newly opened tab. */
export function tabOpened(
  { targetId, openerId, title, url }: Protocol.Target.TargetInfo,
  { telemetry, secrets }: { telemetry: Teller; secrets: Secrets },
): void {
  // A person's new tab is one of Chromium's pages.
  const isTab = !isInternal(url) || /^chrome:\/\/(?:newtab|new-tab-page)\b/.test(url)
  if (!isTab || !telemetry.captures('page')) return
  const data = {
    target_id: text(targetId, MAX_ID),
    target_type: 'page',
    url: secrets.scrubCut(text(url, MAX_RAW_URL), MAX_URL).text,
    title: secrets.scrubCut(text(title, MAX_RAW_URL), MAX_TITLE).text,
    ...(openerId && { opener_id: text(openerId, MAX_ID) }),
  }
  // Nothing in the tab learns passwords yet, and the page that opens it chooses its address and so its title.
  telemetry.emit(withhold({ type: 'page_tab_opened', source: cdp('Target.attachedToTarget'), data }))
}

function watchNavigations({ session, context }: WatchedTarget, { telemetry, emit }: { telemetry: Teller; emit: Emit }, secrets: Secrets): () => void {
  return session.on('Page.frameNavigated', ({ frame }) => {
    if (!telemetry.captures('page')) return
    const { target_id, target_type, session_id } = context()
    const data = {
      target_id,
      target_type,
      session_id,
      frame_id: text(frame.id, MAX_ID),
      loader_id: text(frame.loaderId, MAX_ID),
      ...(frame.parentId && { parent_frame_id: text(frame.parentId, MAX_ID) }),
      url: secrets.scrubCut(addressOf(frame), MAX_URL).text,
    }
    emit({ type: 'page_navigation', source: cdp('Page.frameNavigated'), data }, frame.id !== session.targetId)
  })
}

/** Emits events when the document of a page exists, has loaded, and is settled. */
function watchLoading({ session, context }: WatchedTarget, emit: Emit): () => void {
  let isThere = false
  let settling: NodeJS.Timeout | undefined
  const settle = () => {
    settling = undefined
    emit({ type: 'page_layout_settled', source: cdp('PerformanceTimeline.timelineEventAdded'), data: context() }, false)
    if (isThere) emit({ type: 'page_navigation_settled', source: cdp('Page.domContentEventFired'), data: context() }, false)
  }
  const restart = () => {
    clearTimeout(settling)
    settling = setTimeout(settle, SETTLED_MS)
  }
  const stop = () => {
    clearTimeout(settling)
    settling = undefined
  }
  const ends = [
    session.on('Page.frameNavigated', ({ frame }) => {
      if (frame.id !== session.targetId) return
      isThere = false
      stop()
    }),
    session.on('Page.domContentEventFired', ({ timestamp }) => {
      isThere = true
      const data = { ...context(), cdp_timestamp: number(timestamp) }
      emit({ type: 'page_dom_content_loaded', source: cdp('Page.domContentEventFired'), data }, false)
    }),
    session.on('Page.loadEventFired', ({ timestamp }) => {
      const data = { ...context(), cdp_timestamp: number(timestamp) }
      emit({ type: 'page_load', source: cdp('Page.loadEventFired'), data }, false)
      restart()
    }),
    onShift(session, () => {
      if (settling !== undefined) restart()
    }),
    stop,
  ]
  return () => {
    for (const end of ends) end()
  }
}

const onShift = (session: CdpSession, listener: () => void): (() => void) =>
  session.on('PerformanceTimeline.timelineEventAdded', ({ event }) => {
    if (event?.type === 'layout-shift') listener()
  })

/** Emits events of the performance timeline, which Chromium reports without a script in the page. */
function watchTimeline({ session, context }: WatchedTarget, { telemetry, emit }: { telemetry: Teller; emit: Emit }, secrets: Secrets): () => void {
  return session.on('PerformanceTimeline.timelineEventAdded', ({ event }) => {
    if (!telemetry.captures('page')) return
    const common = { ...context(), source_frame_id: text(event.frameId, MAX_ID), time: milliseconds(event.time) }
    const source = cdp('PerformanceTimeline.timelineEventAdded')
    if (event.type === 'layout-shift') {
      const { value, hadRecentInput } = event.layoutShiftDetails ?? {}
      const layout_shift_details = { value: number(value), had_recent_input: hadRecentInput === true }
      emit({ type: 'page_layout_shift', source, data: { ...common, duration: number(event.duration), layout_shift_details } }, true)
    } else if (event.type === 'largest-contentful-paint') {
      const { renderTime, loadTime, size, elementId, url, nodeId } = event.lcpDetails ?? {}
      const lcp_details = {
        render_time: milliseconds(renderTime),
        load_time: milliseconds(loadTime),
        size: number(size),
        ...(elementId && { element_id: secrets.scrubCut(text(elementId, MAX_RAW_URL), 200).text }),
        ...(url && { url: secrets.scrubCut(text(url, MAX_RAW_URL), MAX_URL).text }),
        ...(Number.isSafeInteger(nodeId) && { node_id: nodeId }),
      }
      emit({ type: 'page_lcp', source, data: { ...common, lcp_details } }, true)
    }
  })
}

const number = (value: unknown): number => (Number.isFinite(value) ? (value as number) : 0)
/** Chromium's seconds since 1970. */
const milliseconds = (seconds: unknown): number => Math.round(number(seconds) * 1000 * 1000) / 1000
