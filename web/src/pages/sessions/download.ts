// Saves what the service sends. A link carries no header of ours, so an answer that needs a sign-in goes through the page's memory.

/** Saves an answer under `name`. `progress` gets the number of bytes so far. */
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
  // Not the type that the session chose: the browser must always save the file and never open it.
  saveBlob(new Blob(parts, { type: 'application/octet-stream' }), name)
}

export function saveBlob(file: Blob, name: string): void {
  const url = URL.createObjectURL(file)
  saveFrom(url, name)
  // By then the browser has started to save the file.
  setTimeout(() => URL.revokeObjectURL(url), 60_000)
}

/** Lets the browser download from an address of this origin that needs no sign-in. */
export function saveFrom(url: string, name: string): void {
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
}
