// Progress, for whoever waits: on standard error, so that standard output is the table alone.

export const say = (text: string): void => void process.stderr.write(`bench: ${text}\n`)
