// How the scripts beside this one tell the agent something. They run in a world of their own in each document, which pages do not see. BINDING is replaced by a
// name that no page can guess; the agent puts a function of that name into the world a moment after the document has begun (world.ts).
;(() => {
  const NAME = 'BINDING'
  if (globalThis[`${NAME}Parts`]) return
  /** What is told before the function is there. */
  const waiting = []
  const MAX_WAITING = 100
  const parts = {
    tell(message) {
      const text = JSON.stringify(message)
      if (typeof globalThis[NAME] === 'function') globalThis[NAME](text)
      else if (waiting.length < MAX_WAITING) waiting.push(text)
    },
    ready() {
      for (const text of waiting.splice(0)) globalThis[NAME](text)
    },
    /** The ends of the scripts that run, by name. */
    ends: {},
    end(name) {
      parts.ends[name]?.()
      delete parts.ends[name]
    },
    /** Listens on the window, before the page does. Returns the end. `document.open()` removes all listeners, so they are added again when the document changes. */
    listen(listeners) {
      const entries = Object.entries(listeners)
      const add = () => {
        for (const [type, listener] of entries) addEventListener(type, listener, { capture: true, passive: true })
      }
      const observer = new MutationObserver(add)
      add()
      observer.observe(document, { childList: true })
      return () => {
        observer.disconnect()
        for (const [type, listener] of entries) removeEventListener(type, listener, { capture: true })
      }
    },
  }
  globalThis[`${NAME}Parts`] = parts
})()
