// The search dialog of the documentation. It loads the index of all pages once, and searches in the reader's browser.
import { openIndex } from './find.ts'

const LIMIT = 12

/** @param {string} name @param {string} className @param {string} text */
function element(name, className = '', text = '') {
  const made = document.createElement(name)
  if (className) made.className = className
  made.textContent = text
  return made
}

/** Makes the dialog. @throws when the index cannot be loaded */
export async function makeDialog() {
  const response = await fetch('/docs/assets/index.json')
  if (!response.ok) throw new Error(`the index of the documentation was answered with ${response.status}`)
  const search = openIndex(await response.text())

  const dialog = element('dialog', 'search')
  dialog.setAttribute('aria-label', 'Search the documentation')
  const input = element('input')
  input.type = 'search'
  input.placeholder = 'Search the documentation'
  input.autocomplete = 'off'
  input.setAttribute('aria-label', 'Search the documentation')
  const close = element('button', 'close', 'Close')
  close.type = 'button'
  close.addEventListener('click', () => dialog.close())
  const bar = element('div', 'bar')
  bar.append(input, close)
  const said = element('p', 'said')
  said.setAttribute('role', 'status')
  const list = element('ul')
  dialog.append(bar, said, list)
  document.body.append(dialog)

  const show = () => {
    const query = input.value.trim()
    const hits = query === '' ? [] : search(query, LIMIT)
    said.textContent = query === '' ? 'Type some words.' : hits.length === 0 ? 'Nothing found.' : hits.length === 1 ? '1 section' : `${hits.length} sections`
    list.replaceChildren(
      ...hits.map(({ title, path, heading, excerpt }) => {
        const link = element('a')
        link.href = path
        link.append(element('strong', '', heading), element('span', 'of', heading === title ? '' : title), element('span', 'excerpt', excerpt))
        const item = element('li')
        item.append(link)
        return item
      }),
    )
  }
  input.addEventListener('input', show)
  // A link to another place of the same page leaves the dialog open otherwise.
  list.addEventListener('click', ({ target }) => target instanceof Element && target.closest('a') && dialog.close())
  dialog.addEventListener('keydown', (event) => {
    const links = [...list.querySelectorAll('a')]
    if (event.key === 'Enter' && event.target === input) {
      links[0]?.click()
    } else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      const at = links.indexOf(document.activeElement) + (event.key === 'ArrowDown' ? 1 : -1)
      if (at < 0) input.focus()
      else links[Math.min(at, links.length - 1)]?.focus()
    } else return
    event.preventDefault()
  })
  // A click beside the dialog is one on its backdrop.
  dialog.addEventListener('click', (event) => event.target === dialog && dialog.close())
  return {
    open() {
      if (dialog.open) return
      dialog.showModal()
      input.select()
      show()
    },
  }
}
