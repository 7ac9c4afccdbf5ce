// Saving what the service sends. A link carries no sign-in, so what needs one goes through the memory of the page.

/** Saves an answer under `name`. `progress` is told how many bytes have come. */
export async function save(response: Response, name: string, progress: (bytes: number) => void = () => {}): Promise<void> {
  const parts: Uint8Array<ArrayBuffer>[] = []
  let bytes = 0
  const reader = response.body!.getReader()
  while (true) {
    const { done, value } = await reader.read()
    if (done) break
    parts.push(value)
    progress((bytes += value.length))
  }
  // No type of the session's choice: the browser must only ever save it.
  saveBlob(new Blob(parts, { type: 'application/octet-stream' }), name)
}

export function saveBlob(file: Blob, name: string): void {
  const url = URL.createObjectURL(file)
  saveFrom(url, name)
  // The browser has taken it over by then.
  setTimeout(() => URL.revokeObjectURL(url), 60_000)
}

/** Lets the browser download what is at an address of this origin that needs no sign-in. */
export function saveFrom(url: string, name: string): void {
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
}
