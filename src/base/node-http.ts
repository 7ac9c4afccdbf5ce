// Node's HTTP, taken by another way than `import`: an import of node:http evaluates its lazy exports (WebSocket and others), which
// loads a whole second HTTP client. That is 40 ms of every start of an agent.
export const { Agent, METHODS, STATUS_CODES, request } = process.getBuiltinModule('node:http')
