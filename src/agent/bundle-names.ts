// The files of the agent's bundle (instances/local/program.ts).
/** The agent. */
export const BUNDLE = 'agent.cjs'
/** The X client is a file of its own: its path in a stack trace shows that the error is the reader's (guard.ts). */
export const X_CLIENT = 'node_modules/x11/index.cjs'
