// Prints progress to standard error, so that standard output contains only the table.

export const say = (text: string): void => void process.stderr.write(`bench: ${text}\n`)
