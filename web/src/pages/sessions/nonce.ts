// The page's policy accepts only style elements with its nonce. This gives the nonce to style elements that a library adds.

/** Runs `work`, which must be synchronous. The style elements that it creates get the nonce. */
export function noncePolicy(work: () => void): void {
  const { nonce } = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]') ?? {}
  if (!nonce) return work()
  const make = document.createElement.bind(document)
  document.createElement = ((name: string, options?: ElementCreationOptions) => {
    const element = make(name, options)
    if (name === 'style') element.nonce = nonce
    return element
  }) as typeof document.createElement
  try {
    work()
  } finally {
    // This uncovers the document's own method.
    delete (document as { createElement?: unknown }).createElement
  }
}
