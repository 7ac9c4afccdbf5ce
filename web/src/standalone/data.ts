// Reads the data that the service has filled in for a page's script.

export const pageData = <T>(): T => JSON.parse(document.body.dataset.page!) as T
