// Sets the focus, for screen readers and the keyboard.

/** Use as an element's `ref`: the element takes the focus when it appears. */
export const focus = (element: HTMLElement | null): void => element?.focus({ preventScroll: true })
