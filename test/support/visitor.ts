// A web browser for sign-in tests that need no page: it keeps cookies, follows redirects and sends forms.

export interface Visitor {
  cookies: Map<string, string>
  /** Follows redirects until a request is answered, or until `until` is true for the next address. */
  go(url: string, init?: RequestInit, until?: (url: URL) => boolean): Promise<{ url: URL; response: Response | undefined; text: string }>
}

/** It keeps one set of cookies for one host: web browsers do not separate cookies by port. */
export function makeVisitor(): Visitor {
  const cookies = new Map<string, string>()
  return {
    cookies,
    async go(start, init = {}, until = () => false) {
      let [url, next] = [new URL(start), init]
      for (let hops = 0; hops < 20; hops++) {
        if (until(url)) return { url, response: undefined, text: '' }
        const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ')
        const response = await fetch(url, { ...next, redirect: 'manual', headers: { ...(next.headers as Record<string, string>), ...(cookie && { cookie }) } })
        for (const line of response.headers.getSetCookie()) {
          const [pair = ''] = line.split(';')
          const name = pair.slice(0, pair.indexOf('='))
          const isGone = /;\s*max-age=0/i.test(line) || /expires=Thu, 01 Jan 1970/i.test(line)
          if (isGone) cookies.delete(name)
          else cookies.set(name, pair.slice(name.length + 1))
        }
        const location = response.headers.get('location')
        if (response.status < 300 || response.status > 399 || location === null) return { url, response, text: await response.text() }
        await response.body?.cancel()
        ;[url, next] = [new URL(location, url), {}]
      }
      throw new Error(`too many redirects from ${start}`)
    },
  }
}

export const form = (fields: Record<string, string>): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': 'application/x-www-form-urlencoded' },
  body: new URLSearchParams(fields).toString(),
})

/** The address to which a page's form is sent. */
export const actionOf = (text: string, at: URL): string => new URL(/<form[^>]*action="([^"]+)"/.exec(text)![1]!.replaceAll('&amp;', '&'), at).href
