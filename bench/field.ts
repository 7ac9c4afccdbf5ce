// A page that receives clicks and text, and reports what has arrived.
import type { Page } from 'playwright-core'

/** When no character has come for this long, no more are expected. */
const NO_MORE_MS = 500

export const FIELD = `<!doctype html><title>field</title><link rel="icon" href="data:,">
<style>textarea { position: fixed; inset: 0; width: 100%; height: 100%; box-sizing: border-box; font: 16px monospace; resize: none }</style>
<textarea autocomplete="off" spellcheck="false"></textarea>
<script>
  const field = document.querySelector('textarea')
  let [clicks, keys, last] = [0, 0, 0]
  addEventListener('click', () => clicks++, true)
  addEventListener('keydown', () => keys++, true)
  field.addEventListener('input', () => (last = performance.now()))
  const clear = () => {
    clicks = keys = 0
    field.value = ''
  }
  /** Resolves when the text has this many characters, or when none has come for a while. */
  const written = (length) =>
    new Promise((resolve) => {
      const began = performance.now()
      const look = () => {
        const now = performance.now()
        if (field.value.length < length && now - Math.max(began, last) < ${NO_MORE_MS}) setTimeout(look, 5)
        else resolve({ text: field.value, agoMs: now - last })
      }
      look()
    })
</script>`

export const clearField = (page: Page): Promise<void> => page.evaluate('clear()')

export const arrived = (page: Page): Promise<{ clicks: number; keys: number }> => page.evaluate('({ clicks, keys })')

/** The final text of the field, and the time since its last character. */
export const written = (page: Page, length: number): Promise<{ text: string; agoMs: number }> => page.evaluate(`written(${length})`)
