// Text that a session, a page or a program has chosen, made fit to be shown.

/** Control characters, and those that turn the direction of writing around: they make a text look like another one. */
const UNSEEN = /[^\P{Cc}\t\n]|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/gu

/** `text` with a sign in place of each character that cannot be seen and changes how others are. */
export const printable = (text: string): string => text.replaceAll(UNSEEN, '\ufffd')
