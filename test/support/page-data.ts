// Reads the data with which the service filled in a standalone page.

/** Extracts the data for the page's script from its HTML. */
export function pageData(html: string): Record<string, unknown> {
  const [, text] = /data-page="([^"]*)"/.exec(html)!
  return JSON.parse(text!.replaceAll(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code)))) as Record<string, unknown>
}
