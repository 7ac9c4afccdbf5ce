// The focus, for screen readers and the keyboard.

/** As `ref` of an element: it has the focus when it appears. */
export const focus = (element: HTMLElement | null): void => element?.focus({ preventScroll: true })
