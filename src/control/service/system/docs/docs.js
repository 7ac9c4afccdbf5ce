// The script of every page of the documentation: copy buttons and the search dialog, whose index is loaded when it is opened.

/** @param {string} text */
async function copy(text) {
  // The clipboard API is missing on pages without TLS.
  if (navigator.clipboard) return navigator.clipboard.writeText(text)
  const area = document.createElement('textarea')
  area.value = text
  document.body.append(area)
  area.select()
  const isDone = document.execCommand('copy')
  area.remove()
  if (!isDone) throw new Error('the browser refuses to copy')
}

for (const block of document.querySelectorAll('.code')) {
  const button = document.createElement('button')
  button.type = 'button'
  button.className = 'copy'
  button.textContent = 'Copy'
  button.setAttribute('aria-live', 'polite')
  button.addEventListener('click', () => {
    const text = block.querySelector('code').textContent.replace(/\n$/, '')
    copy(text).then(
      () => (button.textContent = 'Copied'),
      () => (button.textContent = 'Select and copy by hand'),
    )
    setTimeout(() => (button.textContent = 'Copy'), 2000)
  })
  block.append(button)
}

const find = document.getElementById('find')
find.hidden = false
/** @type {Promise<{ open(): void }> | undefined} */
let dialog
const open = () => {
  dialog ??= import(`${'/docs/assets/'}search.js`).then(({ makeDialog }) => makeDialog())
  dialog.then(
    (made) => made.open(),
    () => {
      dialog = undefined
      find.textContent = 'Search (cannot be loaded: try again)'
    },
  )
}
find.addEventListener('click', open)
document.addEventListener('keydown', (event) => {
  // For a moment the field of a closed dialog has the focus still.
  const isTyping = event.target instanceof HTMLElement && event.target.matches('input, textarea, select, [contenteditable]') && event.target.checkVisibility()
  const isSlash = event.key === '/' && !event.ctrlKey && !event.metaKey && !event.altKey
  if (isTyping || !(isSlash || (event.key.toLowerCase() === 'k' && (event.ctrlKey || event.metaKey)))) return
  event.preventDefault()
  open()
})
