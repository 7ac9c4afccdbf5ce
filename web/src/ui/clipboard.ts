// The clipboard of this device.

/** False when the browser does not allow it. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    // The page has no TLS, or is in a frame without the permission.
    const onCopy = (event: ClipboardEvent): void => {
      event.clipboardData!.setData('text/plain', text)
      event.preventDefault()
    }
    document.addEventListener('copy', onCopy)
    try {
      return document.execCommand('copy')
    } finally {
      document.removeEventListener('copy', onCopy)
    }
  }
}
