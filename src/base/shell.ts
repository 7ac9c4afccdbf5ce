// Text in command lines of a POSIX shell.

/** One word of a command line, whatever `text` contains. */
export const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`
