// What the service has filled in for the script of a page.

export const pageData = <T>(): T => JSON.parse(document.body.dataset.page!) as T
