// Cleans text that a session, a page or a program has chosen, before it is shown.

/** Control characters, and characters that turn the writing direction: they make a text look like another one. */
const UNSEEN = /[^\P{Cc}\t\n]|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/gu

/** Replaces each invisible character that changes how other characters look. */
export const printable = (text: string): string => text.replaceAll(UNSEEN, '\ufffd')
