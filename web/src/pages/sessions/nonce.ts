// Style elements that a library adds: the policy of the page takes only those with its nonce.

/** Does `work`, which must not wait; the style elements that it makes have the nonce. */
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
    // What is below it is the document's own.
    delete (document as { createElement?: unknown }).createElement
  }
}
