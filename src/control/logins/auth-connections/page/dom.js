// Elements. Texts go in as text only, so that nothing of a site becomes markup.

/**
 * Makes an element. Attributes whose value is undefined or false are left out; `on…` are listeners.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Node | string | undefined | false)} children
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value)
    else element.setAttribute(name, value === true ? '' : String(value))
  }
  element.append(...children.filter((child) => child !== undefined && child !== false && child !== ''))
  return element
}

/** A text that others have written: its direction does not reach beyond it. */
export const foreign = (text, attributes = {}) => make('bdi', { dir: 'auto', ...attributes }, text)
