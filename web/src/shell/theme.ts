// The theme: light, dark, or the system's.
export type Theme = 'system' | 'light' | 'dark'
const STORED = 'cob.theme'

export function theme(): Theme {
  try {
    const found = localStorage.getItem(STORED)
    return found === 'light' || found === 'dark' ? found : 'system'
  } catch {
    return 'system'
  }
}

export function chooseTheme(chosen: Theme): void {
  try {
    localStorage.setItem(STORED, chosen)
  } catch {}
  applyTheme(chosen)
}

/** The tokens follow this attribute, or without it the system's setting. */
export function applyTheme(chosen: Theme = theme()): void {
  if (chosen === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = chosen
}
