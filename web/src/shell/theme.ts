// Light, dark, or as the system has it.
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

/** The tokens follow the attribute, and the system's setting without it. */
export function applyTheme(chosen: Theme = theme()): void {
  if (chosen === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = chosen
}
