// What a page that stands alone was filled in with.

/** The data for the script of a page, out of its HTML. */
export function pageData(html: string): Record<string, unknown> {
  const [, text] = /data-page="([^"]*)"/.exec(html)!
  return JSON.parse(text!.replaceAll(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code)))) as Record<string, unknown>
}
