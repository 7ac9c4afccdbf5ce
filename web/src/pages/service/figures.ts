// Parses the figures of /metrics, in Prometheus' text format, for a page.

export interface Figure {
  labels: Record<string, string>
  value: number
}

/** The figures by name, without comments. */
export function parseFigures(text: string): Map<string, Figure[]> {
  const figures = new Map<string, Figure[]>()
  for (const line of text.split('\n')) {
    const [, name, labels, value] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line) ?? []
    if (name === undefined || value === undefined) continue
    const found = [...(labels ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key, text]) => [key!, text!.replaceAll(/\\(.)/g, '$1')])
    const one = { labels: Object.fromEntries(found) as Record<string, string>, value: Number(value) }
    figures.set(name, [...(figures.get(name) ?? []), one])
  }
  return figures
}

/** The sum of all figures with this name and these labels, or undefined when there is none. */
export function sumOf(figures: Map<string, Figure[]>, name: string, labels: Record<string, string> = {}): number | undefined {
  const found = figures.get(name)?.filter((figure) => Object.entries(labels).every(([key, value]) => figure.labels[key] === value))
  return found && found.length > 0 ? found.reduce((sum, { value }) => sum + value, 0) : undefined
}
